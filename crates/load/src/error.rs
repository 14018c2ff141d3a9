//! What this crate refuses.

/// A load that cannot be played.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A number outside its range.
    #[error("load {setting} must be {expected}, got {value}")]
    OutOfRange {
        /// Which number, for example `per_second`.
        setting: &'static str,
        /// What it must be.
        expected: &'static str,
        /// The refused value.
        value: f64,
    },
    /// Levels that do not follow each other.
    #[error(
        "load levels must start one after the other: {later} s does not come after {earlier} s"
    )]
    LevelsOutOfOrder {
        /// Start of the level before, in seconds.
        earlier: f64,
        /// Start of the refused one.
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
    /// No level at all.
    #[error("load has no levels: give at least one start and rate")]
    NoLevels,
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
