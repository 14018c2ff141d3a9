//! What this crate refuses.

/// A misuse of a mechanism. None of these changes it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A weight, cap, capacity or amount of work that is not a number above zero.
    #[error("{what} must be a finite number above 0, got {value}")]
    NotPositive {
        /// Which number.
        what: &'static str,
        /// The refused value.
        value: f64,
    },
    /// A kind of jobs that does not exist.
    #[error("there is no kind {kind} of jobs: they are 0 to 3")]
    NoSuchKind {
        /// The refused kind.
        kind: usize,
    },
    /// A cost that is not a number of zero or above.
    #[error("{what} must be a finite number of 0 or above, got {value}")]
    Negative {
        /// Which number.
        what: &'static str,
        /// The refused value.
        value: f64,
    },
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
