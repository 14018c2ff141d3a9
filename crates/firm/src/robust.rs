//! How far a window lies from its reference, in a unit that all metrics share.
//!
//! BARO divides by the interquartile range, NSigma by the standard deviation. Both fail on a
//! metric that is nearly constant: a byte more of memory is then infinitely anomalous. A part of
//! the median is therefore added to the scale.

use serde::Serialize;

use crate::statistics::quantile;

/// What stands for the samples of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowSummary {
    /// Middle sample: one outlier counts for nothing.
    Median,
    /// Mean.
    Mean,
    /// Largest: for faults that do not fill the window.
    Max,
}

/// How deviations are measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DeviationConfig {
    /// Part of the reference's median that counts as noise, beside its interquartile range.
    pub noise_floor: f64,
    /// What stands for a window.
    pub summary: WindowSummary,
}

impl Default for DeviationConfig {
    fn default() -> Self {
        Self { noise_floor: 0.05, summary: WindowSummary::Median }
    }
}

impl WindowSummary {
    /// One number for the finite samples; none without any.
    pub fn of(self, samples: &[f64]) -> Option<f64> {
        let finite = || samples.iter().copied().filter(|x| x.is_finite());
        match self {
            Self::Median => quantile(samples, 0.5),
            Self::Max => finite().reduce(f64::max),
            Self::Mean => {
                let count = finite().count();
                (count > 0).then(|| finite().sum::<f64>() / count as f64)
            }
        }
    }
}

/// Robust z-score of a window against its reference, with sign. None where either is empty, or
/// where nothing gives a scale (all zero, and still zero).
///
/// A constant zero that changes has the change itself as its scale: a deviation of one.
pub fn deviation(reference: &[f64], window: &[f64], config: &DeviationConfig) -> Option<f64> {
    let median = quantile(reference, 0.5)?;
    let range = quantile(reference, 0.75)? - quantile(reference, 0.25)?;
    let scale = range + config.noise_floor * median.abs();
    let distances: Vec<f64> = match config.summary {
        // The largest distance may lie below the median.
        WindowSummary::Max => {
            let furthest = window
                .iter()
                .map(|x| x - median)
                .filter(|d| d.is_finite())
                .max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
            vec![furthest]
        }
        _ => window.iter().map(|x| x - median).collect(),
    };
    let distance = config.summary.of(&distances)?;
    if scale > 0.0 {
        Some(distance / scale)
    } else if distance == 0.0 {
        None
    } else {
        Some(distance.signum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nearly_constant_metric_does_not_look_infinitely_anomalous() {
        let config = DeviationConfig::default();
        let memory = [1_000_000.0; 60];
        let score = deviation(&memory, &[1_000_001.0; 10], &config).unwrap();
        assert!(score < 0.001, "{score}");
    }

    #[test]
    fn a_score_does_not_depend_on_the_unit() {
        let config = DeviationConfig::default();
        let (reference, window) = ([1.0, 2.0, 3.0, 2.0], [9.0, 11.0]);
        let scaled = |samples: &[f64]| samples.iter().map(|x| x * 1024.0).collect::<Vec<_>>();
        let score = deviation(&reference, &window, &config).unwrap();
        assert_eq!(deviation(&scaled(&reference), &scaled(&window), &config), Some(score));
    }

    #[test]
    fn nothing_is_made_up_where_samples_are_missing() {
        let config = DeviationConfig::default();
        assert_eq!(deviation(&[], &[1.0], &config), None);
        assert_eq!(deviation(&[1.0], &[f64::NAN], &config), None);
        assert_eq!(deviation(&[0.0; 5], &[0.0], &config), None);
        assert_eq!(deviation(&[0.0; 5], &[7.0], &config), Some(1.0));
    }
}
