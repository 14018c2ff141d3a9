//! Errors of this crate.

/// An invalid value. The message names the value and what is expected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A quantity is negative, not finite, or too large for its unit.
    #[error("{quantity} must be a finite number from 0 to {most}, got {value}")]
    Quantity {
        /// The quantity, for example `cores`.
        quantity: &'static str,
        /// The number given.
        value: f64,
        /// The largest number the unit can hold.
        most: f64,
    },
    /// The lower bound of a range lies above its upper bound.
    #[error("lower bound {low} is above upper bound {high}: swap them or widen the range")]
    BoundsReversed {
        /// The lower bound as written.
        low: String,
        /// The upper bound as written.
        high: String,
    },
    /// An SLO with an invalid percentile or threshold.
    #[error("SLO {what}: got {value}")]
    Objective {
        /// What an SLO needs.
        what: &'static str,
        /// The value given.
        value: String,
    },
    /// A snapshot lacks an array that the loader needs.
    #[error(
        "snapshot has no array `{name}`: it was written by another version or for another shape"
    )]
    SnapshotMissing {
        /// Full name of the array.
        name: String,
    },
    /// A snapshot holds an array of another type or length.
    #[error("snapshot array `{name}` is {found}, expected {expected}")]
    SnapshotMismatch {
        /// Full name of the array.
        name: String,
        /// Type and length found.
        found: String,
        /// Type and length expected.
        expected: String,
    },
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
