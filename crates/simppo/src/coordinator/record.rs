//! What a coordinator remembers of one agent.

use std::time::Duration;

use homeostat_core::AgentId;
use homeostat_env::Action;

use crate::RefusalCounts;
use crate::coordination::Session;

/// One agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Record {
    pub(super) session: Session,
    /// The number by which its present process called itself.
    pub(super) incarnation: u64,
    /// The function that it asked for.
    pub(super) function: Option<String>,
    /// Its place on the platform; nothing while it waits for one.
    pub(super) seat: Option<AgentId>,
    /// Its action in the step that comes next.
    pub(super) action: Option<Action>,
    /// The last step in which it acted.
    pub(super) acted_in: Option<u64>,
    /// On the coordinator's guarded clock.
    pub(super) last_heard: Duration,
    pub(super) is_silent: bool,
    /// Whether it was heard since the coordinator started.
    pub(super) is_heard: bool,
    pub(super) accepted: u64,
    pub(super) missed: u64,
    pub(super) timeouts: u64,
    pub(super) refusals: RefusalCounts,
}

impl Record {
    /// Starts a new session; the seat and the counts stay.
    pub(super) fn begin(&mut self, session: Session, now: Duration) {
        self.session = session;
        self.last_heard = now;
        self.is_silent = false;
        self.is_heard = true;
        self.action = None;
        self.acted_in = None;
    }

    /// Whether a step waits for it.
    pub(super) fn is_member(&self) -> bool {
        self.seat.is_some() && !self.is_silent
    }
}
