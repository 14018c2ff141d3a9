//! What this crate refuses.

/// A path or a condition that cannot be made. A refusal changes nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A setting outside its range.
    #[error("{key} = {value} is out of range: {expected}")]
    OutOfRange {
        /// The setting.
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
    /// A quantity outside its range.
    #[error(transparent)]
    Core(#[from] homeostat_core::Error),
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Refuses a number outside a closed range, NaN included.
pub(crate) fn check(key: &str, value: f64, low: f64, high: f64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::OutOfRange {
        key: key.to_owned(),
        value: value.to_string(),
        expected: format!("from {low} to {high}"),
    })
}
