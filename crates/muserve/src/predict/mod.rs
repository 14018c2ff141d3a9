//! How many tokens an answer will have (section 6.3.3).

mod accuracy;
mod drift;
mod embeddings;
mod length_classes;
mod lexicon;
mod prompt_features;
mod prompt_network;
mod prompt_regression;
mod recalibration;

pub use accuracy::{Classification, kendall_tau};
pub use drift::DriftDetector;
pub use length_classes::LengthClasses;
pub use prompt_features::readable_part;
pub use prompt_network::{LengthLoss, PromptNetwork, PromptNetworkConfig};
pub use prompt_regression::{PromptRegression, PromptRegressionConfig};
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

/// A recorded answer: of which prompt and model, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Place of its prompt.
    pub prompt: usize,
    /// Place of its model.
    pub model: usize,
    /// Its length.
    pub tokens: u32,
}

/// Fewer prompts say nothing about others.
const MIN_PROMPTS: usize = 20;

/// An empty answer counts as one token.
fn log_length(tokens: u32) -> f64 {
    f64::from(tokens.max(1)).ln()
}
