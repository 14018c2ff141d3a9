/// What is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Too little to learn from.
    #[error("train a length predictor on {found} {what}; at least {least} are needed")]
    TooFew {
        /// What there is too little of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many are needed.
        least: usize,
    },
    /// An encoder that cannot be used, or a text that does not fit it.
    #[error("{0}")]
    Encoder(String),
    /// A number that cannot be used.
    #[error("use {value} as {what}; {expected}")]
    OutOfRange {
        /// What the number is for.
        what: &'static str,
        /// The number.
        value: f64,
        /// What is possible.
        expected: &'static str,
    },
    /// An answer for a prompt or a model that does not exist.
    #[error("find {what} {index} of an answer; there are {count}")]
    UnknownIndex {
        /// Of which list.
        what: &'static str,
        /// Place that was asked for.
        index: usize,
        /// Length of the list.
        count: usize,
    },
}

impl From<homeostat_nn::Error> for Error {
    fn from(error: homeostat_nn::Error) -> Self {
        Self::Encoder(error.to_string())
    }
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;
