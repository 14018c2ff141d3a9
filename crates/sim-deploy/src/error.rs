//! What this crate refuses.

/// A cluster or application that cannot be made. A refusal changes nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A setting outside its range.
    #[error("{key} = {value} is out of range: {expected}")]
    OutOfRange {
        /// The setting, with its section.
        key: String,
        /// The refused value.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// An application that does not exist, or a load that cannot be played.
    #[error(transparent)]
    Load(#[from] homeostat_load::Error),
    /// A quantity that cannot be one.
    #[error(transparent)]
    Core(#[from] homeostat_core::Error),
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
