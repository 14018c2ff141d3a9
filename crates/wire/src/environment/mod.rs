//! Environments over a network: a learner at one end acts, what it acts in is at the other.
//!
//! The contract is that of Section 5.4.2 of the dissertation: `init`, `reset`, `step`. A
//! simulated environment of this project and a workload on Kubernetes are both [`Environments`],
//! and a learner that talks to one can talk to the other.

mod client;
pub(crate) mod messages;

mod server;
mod service;
mod simulated;

use homeostat_env::{Action, Space};

pub use client::EnvironmentClient;
pub use server::{EnvironmentServer, ServeConfig, serve_environments};
pub use simulated::{MakeEnvironment, SimulatedEnvironments};

/// What learners can act in.
#[tonic::async_trait]
pub trait Environments: Send + Sync + 'static {
    /// Opens a session in an environment.
    async fn init(&self, environment: &str) -> Result<Opening, EnvironmentError>;

    /// Begins an episode and returns its first state. A seed restarts the randomness of a
    /// simulated environment.
    async fn reset(&self, session: &str, seed: Option<u64>) -> Result<Vec<f32>, EnvironmentError>;

    /// Acts, and returns once the action has had its effect.
    async fn step(&self, session: &str, action: Action) -> Result<Stepped, EnvironmentError>;
}

/// A session and what it is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// The session, for the calls that follow.
    pub session: String,
    /// States.
    pub observation: Space,
    /// Actions.
    pub action: Space,
    /// Name and meaning of each number of a state.
    pub observation_fields: Vec<(String, String)>,
    /// Name and meaning of each action, or of each number of one.
    pub action_fields: Vec<(String, String)>,
    /// The reward in words.
    pub reward: String,
    /// Steps after which an episode is truncated.
    pub time_limit: Option<u32>,
}

/// What an action led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Stepped {
    /// The state after it.
    pub state: Vec<f32>,
    /// What it is worth.
    pub reward: f64,
    /// The task itself ended.
    pub terminated: bool,
    /// A limit outside the task stopped the episode.
    pub truncated: bool,
    /// Further figures, for people.
    pub info: Vec<(String, f64)>,
}

/// Why an environment does not do what a learner asks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// No such environment, or a session that is over.
    #[error("{0}")]
    NotFound(String),
    /// No action of the space.
    #[error("{0}")]
    NoAction(String),
    /// Something else comes first.
    #[error("{0}")]
    NotNow(String),
    /// The action came too late, or somebody else has taken the session over.
    #[error("{0}")]
    TooLate(String),
    /// Nothing to be seen now: trying again may help.
    #[error("{0}")]
    Away(String),
    /// Too many sessions.
    #[error("{0}")]
    Full(String),
    /// The caller may not act.
    #[error("{0}")]
    Denied(String),
}
