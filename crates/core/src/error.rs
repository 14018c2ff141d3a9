//! What can be wrong with a value before anything runs.

/// A value that this crate refused, with the value and the way out in the text.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A quantity is negative, not finite, or too large for its unit.
    #[error("{quantity} must be a finite number from 0 to {most}, got {value}")]
    Quantity {
        /// What was being built, for example `cores`.
        quantity: &'static str,
        /// The refused number.
        value: f64,
        /// The largest number the unit can hold.
        most: f64,
    },
    /// The lower end of a range lies above its upper end.
    #[error("lower bound {low} is above upper bound {high}: swap them or widen the range")]
    BoundsReversed {
        /// The lower end as written.
        low: String,
        /// The upper end as written.
        high: String,
    },
    /// An objective that no service could ever be measured against.
    #[error("objective {what}: got {value}")]
    Objective {
        /// What an objective needs.
        what: &'static str,
        /// The refused value.
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

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
