//! What a coordinator remembers of one agent.

use std::time::Duration;

use crate::coordination::Session;
use crate::{Contribution, Refusal, RefusalCounts, RefusalKind};

/// Units of a reward in one: as integers, so that sums over the team are exact.
pub(super) const REWARD_ONE: f64 = (1_u64 << 40) as f64;

/// One agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Record {
    pub(super) session: Session,
    /// The number by which its present life called itself.
    pub(super) incarnation: u64,
    /// On the coordinator's guarded clock.
    pub(super) last_heard: Duration,
    /// The last sequence number that was used up in this session.
    pub(super) last_sequence: u64,
    pub(super) is_silent: bool,
    /// Whether this life of the coordinator has heard it.
    pub(super) is_heard: bool,
    /// Its part of the team, once it has observed something and while it is not silent.
    pub(super) part: Option<Part>,
    pub(super) accepted: u64,
    pub(super) missed: u64,
    pub(super) timeouts: u64,
    pub(super) refusals: RefusalCounts,
}

/// What an agent adds to the team.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    pub(super) contribution: Contribution,
    pub(super) reward: i64,
}

impl Part {
    pub(super) fn new(contribution: Contribution, reward: f64) -> Self {
        Self { contribution, reward: (reward * REWARD_ONE) as i64 }
    }
}

impl Record {
    /// Starts a new session; counts stay.
    pub(super) fn begin(&mut self, session: Session, incarnation: u64, now: Duration) {
        self.incarnation = incarnation;
        self.session = session;
        self.last_heard = now;
        self.last_sequence = 0;
        self.is_silent = false;
        self.is_heard = true;
        self.part = None;
    }

    pub(super) fn check_sequence(&self, sequence: u64, most_gap: u64) -> Result<(), Refusal> {
        let last = self.last_sequence;
        if sequence == last && last > 0 {
            let reason = format!("transition {sequence} was taken in already");
            return Err(Refusal::new(RefusalKind::Duplicate, reason));
        }
        if sequence <= last {
            let reason = format!("transition {sequence} comes after transition {last}");
            return Err(Refusal::new(RefusalKind::OutOfOrder, reason));
        }
        if sequence - last > most_gap {
            let reason = format!(
                "transition {sequence} follows transition {last}: at most {most_gap} may be missing"
            );
            return Err(Refusal::new(RefusalKind::SequenceJump, reason));
        }
        Ok(())
    }
}
