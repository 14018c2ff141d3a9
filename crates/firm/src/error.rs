//! What this crate refuses.

/// A value that a classifier cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting outside its range.
    #[error("{name} is {value}: use {expected}")]
    Setting {
        /// Which setting.
        name: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A sample of another width than the classifier's, or one that is not finite.
    #[error("the sample {sample} cannot be used: {expected} finite numbers are needed")]
    Sample {
        /// The sample.
        sample: String,
        /// How many numbers it needs.
        expected: usize,
    },
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
