//! What this crate refuses.

/// A network that cannot be built, or a file that cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A network without inputs, outputs, or with an empty layer.
    #[error("network {shape} has an empty layer: every width must be at least 1")]
    EmptyLayer {
        /// The widths as written.
        shape: String,
    },
    /// A network beyond any use here.
    #[error("network {shape} has more than {most} parameters: make its layers narrower")]
    TooLarge {
        /// The widths as written.
        shape: String,
        /// The most that is allowed.
        most: usize,
    },
    /// The file is not what it claims to be.
    #[error("file is damaged: {what}")]
    Damaged {
        /// What does not fit.
        what: String,
    },
    /// The file is of another kind or version.
    #[error("file is {found}, expected {expected}")]
    WrongKind {
        /// Kind and version found.
        found: String,
        /// Kind and version expected.
        expected: String,
    },
    /// The weights do not fit the network.
    #[error(transparent)]
    State(#[from] homeostat_core::Error),
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
