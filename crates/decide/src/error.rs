//! What this crate refuses before anything runs.

/// A setting, a name or a checkpoint that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A setting outside the values that make sense.
    #[error("{setting} must be {need}, got {value}")]
    Setting {
        /// Which setting.
        setting: &'static str,
        /// What it has to be.
        need: &'static str,
        /// The refused value.
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
    /// Features or actions that this version does not know.
    #[error("the schema {id} cannot be served: {problem}")]
    Schema {
        /// The schema's id.
        id: String,
        /// What is wrong.
        problem: String,
    },
    /// A plant that cannot be made, or a decision that it cannot carry out.
    #[error("{reason}")]
    Plant {
        /// Why, and the way out.
        reason: String,
    },
    /// A checkpoint that no histogram could have written.
    #[error("histogram checkpoint {what}: got {value}")]
    Checkpoint {
        /// What a checkpoint needs.
        what: &'static str,
        /// The refused value.
        value: String,
    },
}

impl Error {
    /// Refuses a setting.
    pub(crate) fn setting(setting: &'static str, need: &'static str, value: impl ToString) -> Self {
        Self::Setting { setting, need, value: value.to_string() }
    }

    /// What went wrong in a plant.
    pub fn plant(reason: impl std::fmt::Display) -> Self {
        Self::Plant { reason: reason.to_string() }
    }

    /// Refuses a schema.
    pub(crate) fn schema(id: &str, problem: &str) -> Self {
        Self::Schema { id: id.to_owned(), problem: problem.to_owned() }
    }

    /// Refuses a number that is not finite and above zero.
    pub(crate) fn unless_positive(setting: &'static str, value: f64) -> Result<()> {
        if value.is_finite() && value > 0.0 {
            return Ok(());
        }
        Err(Self::setting(setting, "a finite number above 0", value))
    }
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
