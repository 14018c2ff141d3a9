//! What this crate refuses.

/// A campaign that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Text that is no campaign.
    #[error("campaign: {reason}")]
    Unreadable {
        /// Line, column and reason.
        reason: String,
    },
    /// A value outside its range.
    #[error("campaign: {key} = {value}: {expected}")]
    OutOfRange {
        /// Where it is.
        key: String,
        /// The refused value.
        value: String,
        /// What it must be.
        expected: String,
    },
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
