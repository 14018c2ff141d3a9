//! Errors of this crate.

use crate::applications::SEGMENTS;

/// An invalid load or trace.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A number outside its range.
    #[error("load {setting} must be {expected}, got {value}")]
    OutOfRange {
        /// Which number, for example `per_second`.
        setting: &'static str,
        /// What it must be.
        expected: &'static str,
        /// The value given.
        value: f64,
    },
    /// Levels that are not in the order of time.
    #[error(
        "load levels must start one after the other: {later} s does not come after {earlier} s"
    )]
    LevelsOutOfOrder {
        /// Start of the previous level, in seconds.
        earlier: f64,
        /// Start of the level that is out of order.
        later: f64,
    },
    /// A line of a trace that cannot be used.
    #[error("trace line {line}, column {column}: {reason}")]
    Trace {
        /// Counted from one; the header is line 1.
        line: u64,
        /// Its name in the header, or `all`.
        column: String,
        /// What is wrong.
        reason: String,
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
    /// No level at all.
    #[error("load has no levels: give at least one start and rate")]
    NoLevels,
}

fn segments() -> String {
    SEGMENTS.map(|segment| segment.name).join(", ")
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
