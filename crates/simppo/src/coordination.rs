//! What an agent and its coordinator say to each other (Section 4.7.2): five calls, the same
//! whether the coordinator is in this process or at the other end of a network.

use std::fmt;
use std::time::Duration;

use crate::{GlobalState, Refusal, RefusalKind};

/// A coordinator as an agent sees it.
pub trait Coordination {
    /// Joins under this name. Whoever had the name before, most often an earlier life of the
    /// same agent, is no longer listened to. `incarnation` is a number that no other life of the
    /// agent has: asking twice with the same one changes nothing.
    fn register(&mut self, name: &AgentName, incarnation: u64) -> Result<Membership>;

    /// Says that the agent is alive.
    fn heartbeat(&mut self, member: &Member) -> Result<()>;

    /// Hands over a transition, and brings back what the others look like after it.
    fn observe(&mut self, member: &Member, transition: &Transition) -> Result<Guidance>;

    /// What the others look like now.
    fn global_state(&mut self, member: &Member) -> Result<Guidance>;

    /// Leaves for good.
    fn deregister(&mut self, member: &Member) -> Result<()>;
}

/// The name of an agent: its identity over all of its lives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentName(String);

impl AgentName {
    /// The longest name.
    pub const MOST: usize = 64;

    /// Letters, digits, `.`, `_` and `-`: safe in logs, files and tables.
    pub fn new(name: &str) -> Result<Self, Refusal> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !name.is_empty() && name.len() <= Self::MOST && name.chars().all(is_plain) {
            return Ok(Self(name.to_owned()));
        }
        // What a stranger sent may be long and full of anything.
        let shown: String = name.chars().take(Self::MOST).collect();
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

/// One life of an agent, as the coordinator counts them: a later registration has a larger
/// session, whatever became of the coordinator in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Session {
    /// Which life of the coordinator gave it.
    pub coordinator_life: u64,
    /// Its number in that life, from one.
    pub number: u64,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.coordinator_life, self.number)
    }
}

/// Who is speaking, and in which life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The agent.
    pub name: AgentName,
    /// Its session.
    pub session: Session,
}

/// What an agent is told when it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The agent and the session it was given.
    pub member: Member,
    /// The last sequence number that the coordinator has from this session.
    pub last_sequence: u64,
    /// How often it should be heard from.
    pub heartbeat: Duration,
    /// After how long a silence it leaves the global state.
    pub timeout: Duration,
}

/// One step of an agent, as it says: nothing of it is trusted before it was looked at.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// The agent's count of its steps in this session, from one. Steps that were never sent
    /// count too: that is how the coordinator knows what it missed.
    pub sequence: u64,
    /// The state the step led to: the features of Table 4.1.
    pub state: Vec<f32>,
    /// Index of the action, as in [`homeostat_decide::ScalingAction`].
    pub action: u32,
    /// The agent's own reward.
    pub reward: f64,
}

/// What an agent learns with: the virtual agent that stands for the others, and the reward of
/// the team.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guidance {
    /// The auxiliary global state: all living members but the agent itself.
    pub global: GlobalState,
    /// Mean of the last rewards of all living members, the agent's own included.
    ///
    /// Deviation: the dissertation's agents step together, and its mean is over one step. Agents
    /// of a network have a pace of their own: each counts with its latest reward.
    pub team_reward: f64,
    /// Members that the mean is over.
    pub members: usize,
}

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CoordinationError {
    /// The coordinator heard it and said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nobody answered in time. Trying again later may help.
    #[error("the coordinator is away: {reason}")]
    Away {
        /// What was tried, and what came of it.
        reason: String,
    },
    /// Trying again will not help: another token, certificate or protocol is needed.
    #[error("the coordinator does not let this agent in: {reason}")]
    Denied {
        /// What does not fit, and the way out.
        reason: String,
    },
}

/// Result of a call.
pub(crate) type Result<T, E = CoordinationError> = std::result::Result<T, E>;
