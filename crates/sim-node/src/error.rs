//! What this crate refuses.

use crate::processor::PROCESSORS;

/// A node that cannot be made. A refusal changes nothing.
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
    /// A processor that does not exist.
    #[error("there is no processor `{name}`: choose of {}", PROCESSORS.map(|one| one.name).join(", "))]
    NoSuchProcessor {
        /// The name as written.
        name: String,
    },
    /// An application or a load that cannot be played.
    #[error(transparent)]
    Load(#[from] homeostat_load::Error),
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
