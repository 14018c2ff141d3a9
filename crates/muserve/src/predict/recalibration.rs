//! What finished requests say about a predictor: how verbose each model is, and how far
//! predictions are off.

use std::collections::{BTreeMap, VecDeque};

/// Answers that a model needs until its own verbosity weighs as much as that of the mean model.
const PRIOR_ANSWERS: f64 = 5.0;

/// An answer counts half after this many further answers of its model, so that a model that changes
/// is followed.
const HALF_LIFE: f64 = 500.0;

/// Errors that are kept for intervals.
const WINDOW: usize = 2000;

/// Nine of ten answers lie in an interval.
const COVERAGE: f64 = 0.9;

/// Errors of a predictor of log lengths, per model.
#[derive(Debug, Clone, PartialEq)]
pub struct Recalibration {
    mean_verbosity: f64,
    models: BTreeMap<String, Verbosity>,
    errors: VecDeque<f64>,
    /// Lower and upper error of the interval, renewed after each hundredth of the window.
    limits: (f64, f64),
    since_limits: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Verbosity {
    weight: f64,
    sum: f64,
}

impl Recalibration {
    /// Nothing recorded; the mean model answers with this log length to the mean prompt.
    pub fn new(mean_verbosity: f64) -> Self {
        Self {
            mean_verbosity,
            models: BTreeMap::new(),
            errors: VecDeque::new(),
            limits: (0.0, 0.0),
            since_limits: 0,
        }
    }

    /// The log length of a model's answer to the mean prompt.
    pub fn verbosity(&self, model: &str) -> f64 {
        let own = self.models.get(model).copied().unwrap_or_default();
        self.mean_verbosity + own.sum / (own.weight + PRIOR_ANSWERS)
    }

    /// The errors, low and high, between which nine of ten answers lay, as logarithms.
    pub fn error_interval(&self) -> (f64, f64) {
        self.limits
    }

    /// Takes note of an answer: its log length less what its prompt alone lets expect.
    pub fn record(&mut self, model: &str, beyond_prompt: f64) {
        if !beyond_prompt.is_finite() {
            return;
        }
        // The error of the prediction that was made, before the answer corrects the next one.
        self.errors.push_back(beyond_prompt - self.verbosity(model));
        if self.errors.len() > WINDOW {
            self.errors.pop_front();
        }
        self.since_limits += 1;
        if self.since_limits >= WINDOW / 100 {
            self.renew_limits();
        }
        let keep = 0.5f64.powf(1.0 / HALF_LIFE);
        let own = self.models.entry(model.to_owned()).or_default();
        own.weight = own.weight * keep + 1.0;
        own.sum = own.sum * keep + beyond_prompt - self.mean_verbosity;
    }

    fn renew_limits(&mut self) {
        self.since_limits = 0;
        let mut sorted: Vec<f64> = self.errors.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        // Split conformal prediction: the rank is taken of one error more than there are.
        let tail = (1.0 - COVERAGE) / 2.0 * (sorted.len() + 1) as f64;
        let below = (tail.floor() as usize).max(1) - 1;
        let above = (sorted.len() - 1).saturating_sub(below);
        self.limits = (sorted[below.min(above)], sorted[above]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_core::Stream;

    #[test]
    fn a_new_model_is_met_at_the_mean_and_followed_when_it_changes() {
        let mut recalibration = Recalibration::new(5.0);
        assert_eq!(recalibration.verbosity("new"), 5.0);
        (0..100).for_each(|_| recalibration.record("new", 6.0));
        assert!((recalibration.verbosity("new") - 6.0).abs() < 0.06);
        (0..3000).for_each(|_| recalibration.record("new", 4.0));
        assert!((recalibration.verbosity("new") - 4.0).abs() < 0.05);
        assert_eq!(recalibration.verbosity("other"), 5.0);
    }

    #[test]
    fn nine_of_ten_later_errors_lie_in_the_interval() {
        let mut rng = Stream::from_seed(1);
        let mut recalibration = Recalibration::new(0.0);
        (0..4000).for_each(|_| recalibration.record("m", rng.normal()));
        let (low, high) = recalibration.error_interval();
        let inside = (0..20_000).filter(|_| (low..=high).contains(&rng.normal())).count();
        // Two thousand errors place a 5 % quantile within half a point of its tail.
        assert!((inside as f64 / 20_000.0 - 0.9).abs() < 0.02, "{inside}");
    }

    #[test]
    fn what_is_not_a_number_is_not_learnt() {
        let mut recalibration = Recalibration::new(5.0);
        recalibration.record("m", f64::NAN);
        assert_eq!(recalibration.verbosity("m"), 5.0);
    }
}
