//! Incremental support vector machine with an approximate RBF kernel (3.2.3, "Implementation").
//!
//! The kernel is approximated by random Fourier features, the hinge loss is minimised by
//! stochastic gradient descent, sample by sample. Results equal those of scikit-learn's
//! `RBFSampler` and `SGDClassifier.partial_fit` on equal data (tests/it/scikit_learn.rs).

use homeostat_core::Stream;

use crate::{Error, Result};

/// Projection whose inner products approximate `exp(-gamma * |x - y|^2)`.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomFourierFeatures {
    /// One row of directions per feature of the input.
    directions: Vec<Vec<f64>>,
    offsets: Vec<f64>,
}

impl RandomFourierFeatures {
    /// Draws `components` random waves for inputs of this width.
    pub fn draw(inputs: usize, components: usize, gamma: f64, rng: &mut Stream) -> Result<Self> {
        if !(gamma.is_finite() && gamma > 0.0) {
            let value = gamma.to_string();
            return Err(Error::Setting { name: "gamma", value, expected: "a number above zero" });
        }
        let scale = (2.0 * gamma).sqrt();
        let mut row = || (0..components).map(|_| scale * rng.normal()).collect();
        let directions = (0..inputs).map(|_| row()).collect();
        let offsets = (0..components).map(|_| rng.range(0.0, std::f64::consts::TAU)).collect();
        Self::new(directions, offsets)
    }

    /// A projection with these directions (one row per input) and offsets.
    pub fn new(directions: Vec<Vec<f64>>, offsets: Vec<f64>) -> Result<Self> {
        let widths = directions.iter().all(|row| row.len() == offsets.len());
        if offsets.is_empty() || directions.is_empty() || !widths {
            return Err(Error::Setting {
                name: "components",
                value: offsets.len().to_string(),
                expected: "at least one, with a direction for each input",
            });
        }
        Ok(Self { directions, offsets })
    }

    /// The sample among the waves.
    pub fn transform(&self, sample: &[f64]) -> Result<Vec<f64>> {
        let expected = self.directions.len();
        if sample.len() != expected || sample.iter().any(|x| !x.is_finite()) {
            return Err(Error::Sample { sample: format!("{sample:?}"), expected });
        }
        let scale = (2.0 / self.offsets.len() as f64).sqrt();
        let mut waves = self.offsets.clone();
        for (x, row) in sample.iter().zip(&self.directions) {
            for (wave, direction) in waves.iter_mut().zip(row) {
                *wave += x * direction;
            }
        }
        Ok(waves.into_iter().map(|wave| scale * wave.cos()).collect())
    }
}

/// Settings of the classifier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SvmConfig {
    /// Strength of the L2 penalty.
    pub alpha: f64,
}

impl Default for SvmConfig {
    fn default() -> Self {
        Self { alpha: 1e-4 }
    }
}

/// A classifier that learns from one sample at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct IncrementalSvm {
    features: RandomFourierFeatures,
    alpha: f64,
    weights: Vec<f64>,
    intercept: f64,
    /// Samples seen so far, plus one.
    t: f64,
    /// Start of the learning-rate schedule `1 / (alpha * (start + t - 1))`, after Bottou.
    schedule_start: f64,
}

impl IncrementalSvm {
    /// A classifier that has seen nothing.
    pub fn new(features: RandomFourierFeatures, config: SvmConfig) -> Result<Self> {
        let alpha = config.alpha;
        if !(alpha.is_finite() && alpha > 0.0) {
            let value = alpha.to_string();
            return Err(Error::Setting { name: "alpha", value, expected: "a number above zero" });
        }
        let typical_weight = (1.0 / alpha.sqrt()).sqrt();
        let weights = vec![0.0; features.offsets.len()];
        let schedule_start = 1.0 / (typical_weight * alpha);
        Ok(Self { features, alpha, weights, intercept: 0.0, t: 1.0, schedule_start })
    }

    /// Learns from one labelled sample, weighted by how much it counts.
    pub fn learn(&mut self, sample: &[f64], is_culprit: bool, weight: f64) -> Result<()> {
        let x = self.features.transform(sample)?;
        let y = if is_culprit { 1.0 } else { -1.0 };
        let rate = 1.0 / (self.alpha * (self.schedule_start + self.t - 1.0));
        let is_within_margin = y * self.score(&x) <= 1.0;
        let decay = (1.0 - rate * self.alpha).max(0.0);
        let step = if is_within_margin { rate * y * weight } else { 0.0 };
        for (weight, x) in self.weights.iter_mut().zip(&x) {
            *weight = *weight * decay + step * x;
        }
        self.intercept += step;
        self.t += 1.0;
        Ok(())
    }

    /// Signed distance from the boundary: above zero for a culprit.
    pub fn decision(&self, sample: &[f64]) -> Result<f64> {
        Ok(self.score(&self.features.transform(sample)?))
    }

    fn score(&self, x: &[f64]) -> f64 {
        self.weights.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + self.intercept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::SeedTree;

    fn svm() -> IncrementalSvm {
        let mut rng = SeedTree::new(7).stream("waves");
        let features = RandomFourierFeatures::draw(2, 200, 1.0, &mut rng).unwrap();
        IncrementalSvm::new(features, SvmConfig::default()).unwrap()
    }

    #[test]
    fn it_separates_what_no_line_can() {
        let mut svm = svm();
        let mut rng = SeedTree::new(8).stream("samples");
        let mut sample = || [rng.range(-2.0, 2.0), rng.range(-2.0, 2.0)];
        let is_inside = |x: &[f64; 2]| x[0].hypot(x[1]) < 1.2;
        for _ in 0..4000 {
            let x = sample();
            svm.learn(&x, is_inside(&x), 1.0).unwrap();
        }
        let right = (0..1000).filter(|_| {
            let x = sample();
            (svm.decision(&x).unwrap() > 0.0) == is_inside(&x)
        });
        let right = right.count();
        assert!(right > 930, "{right} of 1000");
    }

    #[test]
    fn samples_that_cannot_be_used_change_nothing() {
        let mut svm = svm();
        let before = svm.clone();
        assert!(svm.learn(&[1.0], true, 1.0).is_err());
        assert!(svm.learn(&[f64::NAN, 0.0], true, 1.0).is_err());
        assert_eq!(svm, before);
        let error = svm.decision(&[1.0]).unwrap_err().to_string();
        assert_eq!(error, "the sample [1.0] cannot be used: 2 finite numbers are needed");
    }
}
