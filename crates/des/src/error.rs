//! Errors of this crate.

/// An invalid argument. None of these errors changes the state.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A weight, cap, capacity or amount of work that is not finite and above zero.
    #[error("{what} must be a finite number above 0, got {value}")]
    NotPositive {
        /// Which number.
        what: &'static str,
        /// The value given.
        value: f64,
    },
    /// A kind of jobs that does not exist.
    #[error("there is no kind {kind} of jobs: they are 0 to 3")]
    NoSuchKind {
        /// The kind given.
        kind: usize,
    },
    /// A cost that is negative or not finite.
    #[error("{what} must be a finite number of 0 or above, got {value}")]
    Negative {
        /// Which number.
        what: &'static str,
        /// The value given.
        value: f64,
    },
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
