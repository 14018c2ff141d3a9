//! Errors of this crate.

/// Data or settings that a meta learner cannot use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting outside its range.
    #[error("{name} is {value}: use {expected}")]
    Setting {
        /// Which setting.
        name: &'static str,
        /// As given.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A pair of application and environment that was never registered.
    #[error("{pair} is not registered: register the pair before its samples are inserted")]
    Unregistered {
        /// The pair.
        pair: String,
    },
    /// A pair without samples has no embedding.
    #[error("{pair} has no samples: insert some before its embedding is computed")]
    NoSamples {
        /// The pair.
        pair: String,
    },
    /// A row of another width than the task's.
    #[error("{what} has {found} numbers, {expected} are needed")]
    Width {
        /// What was given.
        what: &'static str,
        /// Its width.
        found: usize,
        /// The width of the task.
        expected: usize,
    },
    /// A number that is NaN or infinite, or a label that is not above zero.
    #[error("{what} is {value}: {expected}")]
    Number {
        /// What was given.
        what: String,
        /// As given.
        value: f64,
        /// What it may be.
        expected: &'static str,
    },
    /// The loss or a gradient left the range of numbers.
    #[error("the {what} is not finite after {update} updates: lower the learning rate")]
    NotFinite {
        /// Which.
        what: &'static str,
        /// Updates until then.
        update: u64,
    },
    /// A base learner that cannot learn.
    #[error(transparent)]
    Learner(#[from] homeostat_rl::Error),
    /// An environment that cannot be made or played.
    #[error(transparent)]
    Environment(#[from] homeostat_env::Error),
    /// State that does not fit.
    #[error(transparent)]
    State(#[from] homeostat_core::Error),
    /// A network that cannot be built.
    #[error(transparent)]
    Network(#[from] homeostat_nn::Error),
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
