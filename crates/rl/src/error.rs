//! What stops a learner.

use std::borrow::Cow;

use homeostat_core::AgentId;

/// An error of one agent. Others of the same fleet go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// NaN or infinity where a number was needed. The agent has stopped learning;
    /// its last checkpoint is untouched.
    #[error("{agent} stopped at step {step}: {tensor} is not finite ({value})")]
    NotFinite {
        /// Whose.
        agent: AgentId,
        /// Environment steps the agent had taken.
        step: u64,
        /// Which tensor, with the index where there is one.
        tensor: String,
        /// The value found.
        value: f32,
    },
    /// An algorithm that cannot work with a space.
    #[error("{algorithm} cannot learn on {env}: {reason}")]
    Unsuited {
        /// The algorithm.
        algorithm: &'static str,
        /// The environment.
        env: String,
        /// What does not fit, and which algorithm would.
        reason: String,
    },
    /// A setting outside its range.
    #[error("{setting} = {value} is out of range: {expected}")]
    Setting {
        /// Section and key, for example `ppo.clip`.
        setting: String,
        /// The refused value.
        value: String,
        /// What it must be.
        expected: Cow<'static, str>,
    },
    /// A dataset, or one of its transitions, that cannot be learned from.
    #[error("transition {transition} of the dataset cannot be used: {what}")]
    Dataset {
        /// Counted from zero.
        transition: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A policy file that does not describe a policy.
    #[error("policy file is damaged: {what}")]
    PolicyFile {
        /// What is missing or wrong.
        what: String,
    },
    /// A network or file error.
    #[error(transparent)]
    Network(#[from] homeostat_nn::Error),
    /// State that does not fit.
    #[error(transparent)]
    State(#[from] homeostat_core::Error),
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
