//! What this crate refuses.

use crate::segment::SEGMENTS;

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
    /// An application without segments.
    #[error("an application needs at least one segment")]
    NoSegments,
    /// A segment that does not exist.
    #[error("there is no segment `{name}`: choose of {}", segments())]
    NoSuchSegment {
        /// The name as written.
        name: String,
    },
    /// A load that cannot be played.
    #[error(transparent)]
    Load(#[from] homeostat_load::Error),
    /// A quantity that cannot be one.
    #[error(transparent)]
    Core(#[from] homeostat_core::Error),
}

fn segments() -> String {
    SEGMENTS.map(|segment| segment.name).join(", ")
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
