//! How many tokens an answer will have (section 6.3.3).

mod accuracy;
mod drift;
mod length_classes;
mod lexicon;
mod prompt_features;
mod prompt_regression;
mod recalibration;

pub use accuracy::{Classification, kendall_tau};
pub use drift::DriftDetector;
pub use length_classes::LengthClasses;
pub use prompt_features::readable_part;
pub use prompt_regression::{Answer, PromptRegression, PromptRegressionConfig};
pub use recalibration::Recalibration;

/// The expected length of an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LengthPrediction {
    /// Tokens, as the median of what is likely.
    pub tokens: f64,
    /// Tokens between which nine of ten answers lie.
    pub interval: (f64, f64),
}

/// Predicts lengths before a request runs, and learns from finished ones.
pub trait LengthPredictor {
    /// The expected length of the model's answer to a prompt. A model that was never seen has the
    /// verbosity of the mean model.
    fn predict(&self, prompt: &str, model: &str) -> LengthPrediction;

    /// Takes note of a finished request.
    fn record(&mut self, prompt: &str, model: &str, tokens: u32);
}
