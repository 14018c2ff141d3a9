//! How a coordinator's team stands, for people and logs.

use super::record::Record;
use crate::coordination::{AgentName, Seat, Session};
use crate::{Coordinator, RefusalCounts};

/// Figures of the whole team.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoordinatorStatus {
    /// Steps that the platform has played.
    pub step: u64,
    /// Living agents with a seat.
    pub members: usize,
    /// Living agents that wait for a seat.
    pub waiting: usize,
    /// Agents that fell silent and may come back.
    pub silent: usize,
    /// Living agents that were heard since the coordinator started.
    pub heard: usize,
    /// Seats of the platform.
    pub seats: usize,
    /// Mean reward of all functions in the last step.
    pub team_reward: Option<f64>,
    /// Actions that the platform carried out.
    pub accepted: u64,
    /// Actions that never came: the seat of an agent held for a step.
    pub missed: u64,
    /// Messages refused.
    pub refusals: RefusalCounts,
    /// Readings of the clock that were not believed.
    pub clock_jumps: u64,
    /// Events that were dropped because they were not taken in time.
    pub events_dropped: u64,
}

/// Figures of one agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentStatus {
    /// Its name.
    pub name: AgentName,
    /// Its session.
    pub session: Session,
    /// Its place on the platform.
    pub seat: Option<Seat>,
    /// Whether it has fallen silent.
    pub is_silent: bool,
    /// Actions that the platform carried out.
    pub accepted: u64,
    /// Steps in which its seat held because it did not act.
    pub missed: u64,
    /// How often it fell silent.
    pub timeouts: u64,
    /// Messages refused.
    pub refusals: RefusalCounts,
}

impl Coordinator {
    /// Figures of the whole team.
    pub fn status(&self) -> CoordinatorStatus {
        let living = || self.records.values().filter(|record| !record.is_silent);
        let members = living().filter(|record| record.is_member()).count();
        CoordinatorStatus {
            step: self.platform.step,
            members,
            waiting: living().count() - members,
            silent: self.records.len() - living().count(),
            heard: living().filter(|record| record.is_heard).count(),
            seats: self.platform.seat_count(),
            team_reward: self.platform.team_reward(),
            accepted: self.accepted,
            missed: self.missed,
            refusals: self.refusals,
            clock_jumps: self.clock.jumps(),
            events_dropped: self.events_dropped,
        }
    }

    /// Figures of every agent that is remembered, by name.
    pub fn agents(&self) -> impl Iterator<Item = AgentStatus> {
        self.records.iter().map(|(name, record)| {
            let Record { session, is_silent, accepted, missed, timeouts, refusals, .. } = *record;
            let seat = record.seat.and_then(|seat| self.platform.seat(seat));
            let name = name.clone();
            AgentStatus { name, session, seat, is_silent, accepted, missed, timeouts, refusals }
        })
    }
}
