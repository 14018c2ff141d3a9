//! What this crate refuses before anything runs.

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A setting outside the values that make sense.
    #[error("{setting} must be {need}, got {value}")]
    Setting {
        /// Which setting.
        setting: &'static str,
        /// What it has to be.
        need: String,
        /// The refused value.
        value: String,
    },
}
