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

/// Means and deviations of rows that come one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunningMoments {
    count: u64,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl RunningMoments {
    pub(crate) fn new(width: usize) -> Self {
        Self { count: 0, sums: vec![0.0; width], squares: vec![0.0; width] }
    }

    /// Takes in rows, one after the other.
    pub(crate) fn add(&mut self, rows: &[f32]) {
        for row in rows.chunks_exact(self.sums.len()) {
            self.count += 1;
            for ((sum, square), x) in self.sums.iter_mut().zip(&mut self.squares).zip(row) {
                *sum += f64::from(*x);
                *square += f64::from(*x) * f64::from(*x);
            }
        }
    }

    /// What makes the rows so far have means of zero and deviations of one.
    pub(crate) fn standardizer(&self) -> Standardizer {
        if self.count == 0 {
            return Standardizer::identity(self.sums.len());
        }
        let count = self.count as f64;
        let mean: Vec<f64> = self.sums.iter().map(|sum| sum / count).collect();
        let deviation =
            |(mean, square): (&f64, &f64)| (square / count - mean * mean).max(0.0).sqrt();
        let scale = |deviation: f64| if deviation > 1e-4 { (1.0 / deviation) as f32 } else { 0.0 };
        let scale = mean.iter().zip(&self.squares).map(deviation).map(scale).collect();
        Standardizer { mean: mean.into_iter().map(|mean| mean as f32).collect(), scale }
    }
}

impl Persist for RunningMoments {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let bits =
            |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        out.put_u64(&format!("{name}/count"), [self.count]);
        out.put_u64(&format!("{name}/sums"), bits(&self.sums));
        out.put_u64(&format!("{name}/squares"), bits(&self.squares));
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.count = from.u64s(&format!("{name}/count"), 1)?[0];
        for (part, numbers) in [("sums", &mut self.sums), ("squares", &mut self.squares)] {
            let bits = from.u64s(&format!("{name}/{part}"), numbers.len())?;
            numbers.iter_mut().zip(bits).for_each(|(number, bits)| *number = f64::from_bits(*bits));
        }
        Ok(())
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
    fn rows_that_come_one_by_one_are_standardised_like_those_that_come_at_once() {
        let rows = [1.0, 5.0, 3.0, 5.0, 8.0, 5.0];
        let mut moments = RunningMoments::new(2);
        assert_eq!(moments.standardizer(), Standardizer::identity(2));
        moments.add(&rows[..2]);
        moments.add(&rows[2..]);
        let expect = Standardizer::fit(2, rows.chunks_exact(2));
        let (found, expect): (Vec<f32>, Vec<f32>) = (
            moments.standardizer().apply(&[2.0, 7.0]).collect(),
            expect.apply(&[2.0, 7.0]).collect(),
        );
        assert!((found[0] - expect[0]).abs() < 1e-6 && found[1] == 0.0, "{found:?} {expect:?}");
    }

    #[test]
    fn features_end_with_mean_zero_and_deviation_one() {
        let rows: [&[f32]; 2] = [&[1.0, 5.0], &[3.0, 5.0]];
        let standardizer = Standardizer::fit(2, rows.into_iter());
        assert_eq!(standardizer.apply(&[1.0, 5.0]).collect::<Vec<_>>(), [-1.0, 0.0]);
        assert_eq!(standardizer.apply(&[3.0, 9.0]).collect::<Vec<_>>(), [1.0, 0.0]);
    }
}
