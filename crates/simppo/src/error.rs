//! What can go wrong.

/// A specialised result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a team cannot be trained.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A learner refused its settings, or a state its form.
    #[error(transparent)]
    Learner(#[from] homeostat_rl::Error),
    /// The environment refused.
    #[error(transparent)]
    Environment(#[from] homeostat_env::Error),
    /// A saved state is not of this team.
    #[error(transparent)]
    State(#[from] homeostat_core::Error),
    /// Agents came or went in one copy of the environment and not in another.
    #[error("an agent left one copy of the environment and stays in another: use num_envs = 1")]
    Apart,
    /// A setting is outside its range.
    #[error("{setting} must be {need}, got {value}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What it has to be.
        need: String,
        /// The refused value.
        value: String,
    },
}
