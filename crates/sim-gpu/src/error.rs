//! What this crate refuses.

/// A device, model or deployment that cannot be made. A refusal changes nothing.
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
    /// A name that is not in a list.
    #[error("there is no {what} `{name}`: choose of {known}")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// The name as written.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// Data that cannot be read.
    #[error("{what} cannot be read: {reason}")]
    Unreadable {
        /// What was read.
        what: &'static str,
        /// Why not.
        reason: String,
    },
    /// Weights that do not fit.
    #[error(
        "the models placed on device {device} need {need_gib:.1} GiB, and it has {has_gib:.1} GiB: place fewer, or split them"
    )]
    OutOfMemory {
        /// The device.
        device: usize,
        /// Weights and the least cache.
        need_gib: f64,
        /// Memory of the device.
        has_gib: f64,
    },
    /// A quantity that cannot be one.
    #[error(transparent)]
    Core(#[from] homeostat_core::Error),
}

impl Error {
    /// A setting outside its range.
    pub(crate) fn setting(key: &str, value: impl ToString, expected: &str) -> Self {
        let (key, value) = (key.to_owned(), value.to_string());
        Self::OutOfRange { key, value, expected: expected.to_owned() }
    }
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
