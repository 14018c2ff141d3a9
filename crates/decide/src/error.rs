//! Errors of this crate.

/// A setting, a name or a checkpoint that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A setting outside its range.
    #[error("{setting} must be {need}, got {value}")]
    Setting {
        /// Which setting.
        setting: &'static str,
        /// The values allowed.
        need: &'static str,
        /// The value given.
        value: String,
    },
    /// A policy that does not exist.
    #[error("no policy is named `{name}`: choose one of {known}")]
    UnknownPolicy {
        /// The name as given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// Features or actions that this version does not support.
    #[error("the schema {id} cannot be served: {problem}")]
    Schema {
        /// The schema's id.
        id: String,
        /// What is wrong.
        problem: String,
    },
    /// A plant that cannot be made, or a decision that it cannot apply.
    #[error("{reason}")]
    Plant {
        /// Why, and how to fix it.
        reason: String,
    },
    /// An invalid histogram checkpoint.
    #[error("histogram checkpoint {what}: got {value}")]
    Checkpoint {
        /// What a checkpoint needs.
        what: &'static str,
        /// The value given.
        value: String,
    },
}

impl Error {
    /// The error for a setting outside its range.
    pub(crate) fn setting(setting: &'static str, need: &'static str, value: impl ToString) -> Self {
        Self::Setting { setting, need, value: value.to_string() }
    }

    /// The error of a plant.
    pub fn plant(reason: impl std::fmt::Display) -> Self {
        Self::Plant { reason: reason.to_string() }
    }

    /// The error for an unsupported schema.
    pub(crate) fn schema(id: &str, problem: &str) -> Self {
        Self::Schema { id: id.to_owned(), problem: problem.to_owned() }
    }

    /// An error for a number that is not finite and above zero.
    pub(crate) fn unless_positive(setting: &'static str, value: f64) -> Result<()> {
        if value.is_finite() && value > 0.0 {
            return Ok(());
        }
        Err(Self::setting(setting, "a finite number above 0", value))
    }
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
