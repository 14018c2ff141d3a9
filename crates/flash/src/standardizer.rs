//! Features with a mean of zero and a deviation of one.

use homeostat_core::{Persist, Snapshot};

/// The mean and the deviation of each feature of a training pool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Standardizer {
    mean: Vec<f32>,
    /// One over the deviation; zero for a feature that is the same everywhere.
    scale: Vec<f32>,
}

impl Standardizer {
    pub(crate) fn identity(width: usize) -> Self {
        Self { mean: vec![0.0; width], scale: vec![1.0; width] }
    }

    pub(crate) fn fit<'a>(width: usize, rows: impl Iterator<Item = &'a [f32]> + Clone) -> Self {
        let count = rows.clone().count().max(1) as f64;
        let mut mean = vec![0.0; width];
        for row in rows.clone() {
            mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += f64::from(*x) / count);
        }
        let mut variance = vec![0.0; width];
        for row in rows {
            for ((variance, mean), x) in variance.iter_mut().zip(&mean).zip(row) {
                *variance += (f64::from(*x) - mean).powi(2) / count;
            }
        }
        let scale = |variance: &f64| {
            let deviation = variance.sqrt();
            if deviation > 1e-6 { (1.0 / deviation) as f32 } else { 0.0 }
        };
        Self {
            mean: mean.iter().map(|mean| *mean as f32).collect(),
            scale: variance.iter().map(scale).collect(),
        }
    }

    pub(crate) fn apply<'a>(&'a self, row: &'a [f32]) -> impl Iterator<Item = f32> + 'a {
        row.iter().zip(&self.mean).zip(&self.scale).map(|((x, mean), scale)| (x - mean) * scale)
    }
}

impl Persist for Standardizer {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f32(&format!("{name}/mean"), &self.mean[..]);
        out.put_f32(&format!("{name}/scale"), &self.scale[..]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        from.copy_f32s(&format!("{name}/mean"), &mut self.mean)?;
        from.copy_f32s(&format!("{name}/scale"), &mut self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_end_with_mean_zero_and_deviation_one() {
        let rows: [&[f32]; 2] = [&[1.0, 5.0], &[3.0, 5.0]];
        let standardizer = Standardizer::fit(2, rows.into_iter());
        assert_eq!(standardizer.apply(&[1.0, 5.0]).collect::<Vec<_>>(), [-1.0, 0.0]);
        assert_eq!(standardizer.apply(&[3.0, 9.0]).collect::<Vec<_>>(), [1.0, 0.0]);
    }
}
