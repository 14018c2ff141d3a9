//! What an agent and its coordinator say to each other: four calls, the same whether the
//! coordinator is in this process or at the other end of a network.

use std::fmt;
use std::time::Duration;

use homeostat_core::AgentId;
use homeostat_env::Action;

use crate::{Refusal, RefusalKind};

/// A coordinator as an agent sees it: it hosts the shared platform, and the agent has a seat there.
pub trait Coordination {
    /// Joins under this name. An earlier session of the name, most often that of an agent that
    /// crashed, ends. Asking twice with the same incarnation changes nothing.
    fn register(&mut self, name: &AgentName, registration: &Registration) -> Result<Membership>;

    /// What the agent's seat sees now; nothing while the agent waits for a seat. A sign of life.
    fn observe(&mut self, member: &Member) -> Result<Option<SeatObservation>>;

    /// Acts in a step of the platform, and returns what the step led to once it is over.
    fn act(&mut self, member: &Member, step: u64, action: &Action) -> Result<StepOutcome>;

    /// Leaves for good: the seat is free.
    fn deregister(&mut self, member: &Member) -> Result<()>;
}

/// The name of an agent: its identity over all of its sessions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentName(String);

impl AgentName {
    /// The longest name.
    pub const MAX_LENGTH: usize = 64;

    /// Letters, digits, `.`, `_` and `-`: safe in logs, files and tables.
    pub fn new(name: &str) -> Result<Self, Refusal> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !name.is_empty() && name.len() <= Self::MAX_LENGTH && name.chars().all(is_plain) {
            return Ok(Self(name.to_owned()));
        }
        // Untrusted text may be long and contain anything.
        let shown: String = name.chars().take(Self::MAX_LENGTH).collect();
        Err(Refusal::new(
            RefusalKind::Name,
            format!("{shown:?} is no name of an agent: 1 to 64 letters, digits, '.', '_' or '-'"),
        ))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an agent says of itself when it joins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Registration {
    /// A number that no other process of the agent has.
    pub incarnation: u64,
    /// The function that it wants to control; any by default.
    pub function: Option<String>,
}

/// One registration of an agent: a later one has a larger session, also after a restart of the
/// coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Session {
    /// Which start of the coordinator gave it.
    pub coordinator_life: u64,
    /// Its number since that start, from one.
    pub number: u64,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.coordinator_life, self.number)
    }
}

/// The sender of a message, and its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The agent.
    pub name: AgentName,
    /// Its session.
    pub session: Session,
}

/// The answer to a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The agent and the session it was given.
    pub member: Member,
    /// Its seat and the function that it controls there; nothing while it waits for a seat.
    pub seat: Option<Seat>,
    /// The environment that the coordinator hosts.
    pub env: String,
    /// Seats of the platform, taken or not.
    pub seats: u32,
    /// How often it should be heard from.
    pub heartbeat: Duration,
    /// After how long a silence another agent may have its seat.
    pub timeout: Duration,
    /// The longest time until an action is answered.
    pub step_wait: Duration,
}

/// A place on the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The agent of the environment that is controlled from here.
    pub agent: AgentId,
    /// Its function.
    pub function: String,
}

/// What a seat sees.
#[derive(Debug, Clone, PartialEq)]
pub struct SeatObservation {
    /// The step of the platform that comes next.
    pub step: u64,
    /// The observation of the seat's own function.
    pub state: Vec<f32>,
    /// The virtual agent: all the other functions, as features of a critic.
    pub others: Vec<f32>,
}

/// What a step of the platform led to for one seat.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutcome {
    /// The reward of the seat's own function.
    pub reward: f64,
    /// The mean reward of all functions of the platform.
    pub team_reward: f64,
    /// Agents that are alive and have a seat.
    pub members: usize,
    /// The task of the function ended.
    pub terminated: bool,
    /// The episode ended: its value goes on.
    pub truncated: bool,
    /// The observation at the end of the step, never that of the next episode.
    pub state: Vec<f32>,
    /// The virtual agent at the same moment.
    pub others: Vec<f32>,
    /// What the seat sees now; nothing if its function is not on the platform at the moment.
    pub next: Option<SeatObservation>,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CoordinationError {
    /// The coordinator refused the message.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No answer came in time. Trying again later may help.
    #[error("the coordinator is away: {reason}")]
    Away {
        /// What was tried, and what came of it.
        reason: String,
    },
    /// Trying again will not help: another token, certificate, setting or protocol is needed.
    #[error("the coordinator does not let this agent in: {reason}")]
    Denied {
        /// What does not fit, and the way out.
        reason: String,
    },
}

/// Result of a call.
pub(crate) type Result<T, E = CoordinationError> = std::result::Result<T, E>;
