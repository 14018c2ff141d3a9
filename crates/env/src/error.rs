//! Errors of environments.

/// A misuse of an environment, or settings it cannot use. None of these errors changes the
/// environment: the caller may correct the call and continue.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// No environment of that id.
    #[error("unknown environment `{id}`{hint}; `homeostat env list` shows all")]
    UnknownId {
        /// The id as written.
        id: String,
        /// ", did you mean ...?" where an id is similar.
        hint: String,
    },
    /// An environment of many agents where one with a single agent is needed.
    #[error("{id} has many agents, but a single-agent environment is needed here")]
    ManyAgents {
        /// The id.
        id: String,
    },
    /// An environment with a single agent where one that many agents share is needed.
    #[error(
        "{id} has a single agent, but an environment that many agents share is needed here; \
         `homeostat env list` shows all"
    )]
    SingleAgent {
        /// The id.
        id: String,
    },
    /// An id that is not `namespace/name-vN`.
    #[error(
        "environment id `{id}` is not of the form namespace/name-vN, for example classic/cartpole-v1"
    )]
    MalformedId {
        /// The id as written.
        id: String,
    },
    /// An action outside the action space.
    #[error("action {action} is outside the action space {space} of {env}")]
    ActionOutsideSpace {
        /// The environment.
        env: String,
        /// The action.
        action: String,
        /// The space.
        space: String,
    },
    /// A step before the first reset.
    #[error("{env} was stepped before reset: call reset first")]
    StepBeforeReset {
        /// The environment.
        env: String,
    },
    /// A step after the end of an episode.
    #[error("{env} was stepped after its episode ended: call reset first")]
    StepAfterEnd {
        /// The environment.
        env: String,
    },
    /// A wrong number of actions for a vectorised or multi-agent environment.
    #[error("{env} expects {expected} actions, got {got}")]
    ActionCount {
        /// The environment.
        env: String,
        /// Number of sub-environments or agents.
        expected: usize,
        /// Number of actions given.
        got: usize,
    },
    /// A vectorised environment with no copy of the environment.
    #[error("{env}: num_envs must be at least 1")]
    NoEnvs {
        /// The environment.
        env: String,
    },
    /// A vectorised environment has fewer copies.
    #[error("{env} has no sub-environment {index}: it has {num_envs}, counted from 0")]
    NoSuchEnv {
        /// The environment.
        env: String,
        /// The index asked for.
        index: usize,
        /// Number of sub-environments.
        num_envs: usize,
    },
    /// Settings of a simulator that cannot be read.
    #[error("cannot use these settings: {reason}")]
    UnreadableSettings {
        /// What is wrong with them.
        reason: String,
    },
    /// A setting of a simulator outside its range.
    #[error("{key} = {value} is out of range: {expected}")]
    SettingOutOfRange {
        /// The setting, with its section.
        key: String,
        /// Its value.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// An environment that its simulator cannot make with these settings.
    #[error("{reason}")]
    CannotBeMade {
        /// Why, and how to fix it.
        reason: String,
    },
    /// A space that contains nothing or whose bounds contradict each other.
    #[error("space is invalid: {what}")]
    ImpossibleSpace {
        /// What is wrong with it.
        what: String,
    },
    /// The saved state does not fit.
    #[error(transparent)]
    State(#[from] homeostat_core::Error),
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
