//! What a world refuses.

/// A misuse of an environment. None of these harms the environment: the caller
/// may correct the call and go on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// No environment of that id.
    #[error("unknown environment `{id}`{hint}; `homeostat env list` shows all")]
    UnknownId {
        /// The id that was asked for.
        id: String,
        /// ", did you mean ...?" where something is near.
        hint: String,
    },
    /// An environment of many agents where one with a single agent is needed.
    #[error("{id} is shared by many agents, and one with a single agent is needed here")]
    ManyAgents {
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
        /// Number of lanes or live agents.
        expected: usize,
        /// Number of actions given.
        got: usize,
    },
    /// A vectorised environment without lanes.
    #[error("{env} needs at least one lane")]
    NoLanes {
        /// The environment.
        env: String,
    },
    /// A lane that a vectorised environment does not have.
    #[error("{env} has no lane {index}: it has {lanes}, counted from 0")]
    NoSuchLane {
        /// The environment.
        env: String,
        /// The lane that was asked for.
        index: usize,
        /// Number of lanes.
        lanes: usize,
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
        /// Why, and the way out.
        reason: String,
    },
    /// A space whose description makes no sense.
    #[error("space is impossible: {what}")]
    ImpossibleSpace {
        /// What is wrong with it.
        what: String,
    },
    /// The saved state does not fit.
    #[error(transparent)]
    State(#[from] homeostat_core::Error),
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
