//! Errors of this crate.

/// A network that cannot be built, or a file that cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A network without inputs, outputs, or with an empty layer.
    #[error("network {shape} has an empty layer: every width must be at least 1")]
    EmptyLayer {
        /// The widths as written.
        shape: String,
    },
    /// A network with too many parameters.
    #[error("network {shape} has more than {most} parameters: make its layers narrower")]
    TooLarge {
        /// The widths as written.
        shape: String,
        /// The largest number allowed.
        most: usize,
    },
    /// Dropout that is no probability, or drops everything.
    #[error("dropout is {value}: it must lie from 0 to below 1")]
    Dropout {
        /// As given.
        value: f32,
    },
    /// A batch without sequences.
    #[error("the batch has no sequences: give at least one length")]
    EmptyBatch,
    /// A sequence without steps.
    #[error("sequence {sequence} has length 0: leave it out of the batch")]
    EmptySequence {
        /// Its place in the batch.
        sequence: usize,
    },
    /// The file is truncated or altered.
    #[error("file is damaged: {what}")]
    Damaged {
        /// What is wrong.
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
    /// An encoder that cannot be used, or a text that does not fit it.
    #[error("encoder cannot be used: {what}")]
    Encoder {
        /// What is wrong.
        what: String,
    },
    /// The weights do not fit the network.
    #[error(transparent)]
    State(#[from] homeostat_core::Error),
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
