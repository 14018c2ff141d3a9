//! A figure over seeds.

use homeostat_lab::Summary;
use serde::Serialize;

/// Mean, interval and range of a figure over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Half the width of the 95 % interval of the mean; none for one or two seeds. Of two values it is
    /// more than six times their distance: it would say less than they do.
    pub interval: Option<f64>,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of these values; no number for none.
    pub fn of(values: &[f64]) -> Self {
        let Some(summary) = Summary::of(values) else {
            return Self { mean: f64::NAN, interval: None, min: f64::NAN, max: f64::NAN };
        };
        let (mean, min, max) = (summary.mean, summary.min, summary.max);
        let interval = summary.interval().filter(|_| summary.count > 2);
        Self { mean, interval, min, max }
    }

    /// The smallest and the largest, where there are several values and no interval.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        (self.interval.is_none() && self.min < self.max).then_some((self.min, self.max))
    }

    /// The same figure in a unit of which `factor` make one of this.
    pub fn scaled(&self, factor: f64) -> Self {
        let scaled = |value: f64| factor * value;
        Self {
            mean: scaled(self.mean),
            interval: self.interval.map(scaled),
            min: scaled(self.min),
            max: scaled(self.max),
        }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = if self.mean.abs() >= 100.0 { 0 } else { 2 };
        match (self.interval, self.range()) {
            (Some(interval), _) => write!(f, "{:.digits$} +- {interval:.digits$}", self.mean),
            (None, Some((min, max))) => {
                write!(f, "{:.digits$} ({min:.digits$} to {max:.digits$})", self.mean)
            }
            (None, None) => write!(f, "{:.digits$}", self.mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_values_are_a_range_and_three_an_interval() {
        let check = |values: &[f64], expect: &str| {
            assert_eq!(Spread::of(values).to_string(), expect);
        };
        check(&[7.0], "7.00");
        check(&[6.4, 18.8], "12.60 (6.40 to 18.80)");
        check(&[1.0, 2.0, 3.0], "2.00 +- 2.48");
        check(&[5.0, 5.0], "5.00");
        assert_eq!(Spread::of(&[0.064, 0.188]).scaled(100.0).to_string(), "12.60 (6.40 to 18.80)");
    }
}
