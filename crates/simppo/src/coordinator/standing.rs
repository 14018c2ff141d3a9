//! How a coordinator's team stands, for people and logs.

use crate::coordination::{AgentName, Session};
use crate::{Coordinator, RefusalCounts};

/// Figures of the whole team.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Agents in the global state.
    pub members: usize,
    /// Living agents that have observed nothing yet in their session.
    pub waiting: usize,
    /// Agents that fell silent and may come back.
    pub silent: usize,
    /// Living agents that this life of the coordinator has heard itself.
    pub heard: usize,
    /// Mean of the members' last rewards, if there are any.
    pub team_reward: Option<f64>,
    /// Transitions taken in.
    pub accepted: u64,
    /// Transitions that agents made and that never came: lost on the way, or with a coordinator
    /// that was killed.
    pub missed: u64,
    /// Messages refused.
    pub refusals: RefusalCounts,
    /// Readings of the clock that were not believed.
    pub clock_jumps: u64,
    /// Events that nobody looked at in time.
    pub events_dropped: u64,
}

/// Figures of one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentStanding {
    /// Who.
    pub name: AgentName,
    /// Its session.
    pub session: Session,
    /// Whether it has fallen silent.
    pub is_silent: bool,
    /// Whether it is in the global state.
    pub is_member: bool,
    /// Transitions taken in.
    pub accepted: u64,
    /// Transitions that never came.
    pub missed: u64,
    /// How often it fell silent.
    pub timeouts: u64,
    /// Messages refused.
    pub refusals: RefusalCounts,
}

impl Coordinator {
    /// Figures of the whole team.
    pub fn standing(&self) -> Standing {
        let living = || self.records.values().filter(|record| !record.is_silent);
        let members = self.team.count();
        Standing {
            members,
            waiting: living().count() - members,
            silent: self.records.len() - living().count(),
            heard: living().filter(|record| record.is_heard).count(),
            team_reward: (members > 0)
                .then(|| self.rewards as f64 / (super::record::REWARD_ONE * members as f64)),
            accepted: self.accepted,
            missed: self.missed,
            refusals: self.refusals,
            clock_jumps: self.clock.jumps(),
            events_dropped: self.events_dropped,
        }
    }

    /// Figures of every agent that is remembered, by name.
    pub fn agents(&self) -> impl Iterator<Item = AgentStanding> {
        self.records.iter().map(|(name, record)| AgentStanding {
            name: name.clone(),
            session: record.session,
            is_silent: record.is_silent,
            is_member: record.part.is_some(),
            accepted: record.accepted,
            missed: record.missed,
            timeouts: record.timeouts,
            refusals: record.refusals,
        })
    }
}
