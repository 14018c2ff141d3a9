//! Means with confidence intervals.

/// Mean and spread of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many values.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their sample standard deviation; zero for one value.
    pub deviation: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of these values; nothing for none.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        Some(Self {
            count,
            mean,
            deviation,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// Half the width of the 95 % interval of the mean (Student's t). One value alone
    /// says nothing about the spread.
    pub fn interval(&self) -> Option<f64> {
        let degrees = self.count - 1;
        (degrees > 0).then(|| student_t(degrees) * self.deviation / (self.count as f64).sqrt())
    }
}

/// The 97.5 % quantile of Student's t for this many degrees of freedom, at least one.
pub fn student_t(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match degrees {
        0..=30 => TABLE[degrees.max(1) - 1],
        // Within 0.001 of the true quantile from here on.
        _ => 1.960 + 2.5 / degrees as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_sample_by_hand() {
        let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((summary.mean, summary.min, summary.max), (3.0, 1.0, 5.0));
        assert!((summary.deviation - 2.5f64.sqrt()).abs() < 1e-12);
        assert!((summary.interval().unwrap() - 2.776 * (2.5f64 / 5.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn one_value_has_no_spread_and_none_has_no_summary() {
        assert_eq!(Summary::of(&[7.0]).unwrap().interval(), None);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn quantiles_of_large_samples_are_those_of_the_tables() {
        for (degrees, expect) in [(40, 2.021), (60, 2.000), (120, 1.980), (100_000, 1.960)] {
            assert!((student_t(degrees) - expect).abs() < 0.002, "{degrees}");
        }
    }
}
