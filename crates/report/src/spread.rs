//! A figure over seeds.

use homeostat_lab::Summary;
use serde::Serialize;

/// Mean, interval and range of a figure over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Half the width of the 95 % interval of the mean; none for one seed.
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
        Self { mean, interval: summary.interval(), min, max }
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
        match self.interval {
            Some(interval) => write!(f, "{:.digits$} +- {interval:.digits$}", self.mean),
            None => write!(f, "{:.digits$}", self.mean),
        }
    }
}
