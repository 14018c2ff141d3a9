//! An agent's side of the coordination: joins, acts, and comes back by itself when the coordinator
//! was away.
//!
//! It keeps nothing for later: an action that is not answered is counted as lost, and the agent
//! goes on from what its seat sees next.

use std::time::Duration;

use homeostat_env::Action;

use crate::coordination::{
    AgentName, Coordination, CoordinationError, Membership, Registration, Result, SeatObservation,
    StepOutcome,
};
use crate::{Refusal, RefusalCounts, RefusalKind};

/// Settings of an agent's side.
#[derive(Debug, Clone)]
pub struct ParticipantConfig {
    /// The agent's name.
    pub name: AgentName,
    /// What it says of itself.
    pub registration: Registration,
    /// Time between two tries to reach a coordinator that has never answered.
    pub first_retry: Duration,
    /// How long a call may take: a platform whose steps take longer is refused.
    pub deadline: Duration,
}

/// One agent in a team.
#[derive(Debug, Clone)]
pub struct Participant {
    config: ParticipantConfig,
    membership: Option<Membership>,
    has_joined: bool,
    is_connected: bool,
    last_contact: Duration,
    /// The seat is not to be looked at before.
    next_look: Duration,
    outage: Option<Outage>,
    counts: ActionCounts,
}

/// What became of an agent's actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActionCounts {
    /// Answered with the outcome of their step.
    pub answered: u64,
    /// Not answered, or refused: the agent does not know what they led to.
    pub lost: u64,
    /// Messages that the coordinator refused, by kind.
    pub refusals: RefusalCounts,
    /// Times the agent registered.
    pub registrations: u64,
    /// Times the coordinator went away.
    pub outages: u64,
}

/// A change in how an agent stands with its coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It joined for the first time.
    Joined,
    /// The coordinator does not answer, or no longer.
    WentAway {
        /// What was tried, and what came of it.
        reason: String,
    },
    /// The coordinator answers again.
    Rejoined {
        /// How long it was away, as far as the agent can tell.
        away: Duration,
        /// Actions that were lost in between.
        lost: u64,
    },
}

#[derive(Debug, Clone, Copy)]
struct Outage {
    since: Duration,
    lost_before: u64,
}

impl Participant {
    /// An agent that has not joined yet.
    pub fn new(config: ParticipantConfig) -> Self {
        Self {
            config,
            membership: None,
            has_joined: false,
            is_connected: false,
            last_contact: Duration::ZERO,
            next_look: Duration::ZERO,
            outage: None,
            counts: ActionCounts::default(),
        }
    }

    /// Whether the coordinator answered the last call.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// The answer to its registration.
    pub fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    /// What became of its actions so far.
    pub fn counts(&self) -> &ActionCounts {
        &self.counts
    }

    /// The moment of the next [`Participant::observe`].
    pub fn next_look(&self) -> Duration {
        self.next_look
    }

    /// Joins if need be, and returns what the agent's seat sees; nothing while the coordinator is
    /// away or no seat is free, or before [`Participant::next_look`].
    ///
    /// An error means that calling again will not help.
    pub fn observe(
        &mut self,
        coordination: &mut (impl Coordination + ?Sized),
        now: Duration,
    ) -> Result<(Option<SeatObservation>, Option<Change>)> {
        if now < self.next_look {
            return Ok((None, None));
        }
        match self.try_observe(coordination) {
            Ok(observation) => {
                let change = self.reached(now);
                let heartbeat = self.membership.as_ref().map(|membership| membership.heartbeat);
                self.next_look = now + heartbeat.unwrap_or_default() / 2;
                Ok((observation, change))
            }
            Err(error) => Ok((None, self.lost_contact(now, error)?)),
        }
    }

    fn try_observe(
        &mut self,
        coordination: &mut (impl Coordination + ?Sized),
    ) -> Result<Option<SeatObservation>> {
        let mut has_registered = false;
        loop {
            let member = match &self.membership {
                Some(membership) => membership.member.clone(),
                None => {
                    has_registered = true;
                    self.register(coordination)?
                }
            };
            let outcome = coordination.observe(&member);
            let Err(CoordinationError::Refused(refusal)) = &outcome else { return outcome };
            self.note(refusal);
            // A coordinator that has forgotten the agent is joined again, once.
            if has_registered || self.membership.is_some() {
                return outcome;
            }
        }
    }

    /// Acts in a step of the platform, and returns what the step led to. Without an outcome the
    /// action is lost, and counted: what the seat sees has to be asked for again.
    ///
    /// An error means that calling again will not help.
    pub fn act(
        &mut self,
        coordination: &mut (impl Coordination + ?Sized),
        now: &dyn Fn() -> Duration,
        step: u64,
        action: &Action,
    ) -> Result<(Option<StepOutcome>, Option<Change>)> {
        let Some(membership) = &self.membership else {
            self.counts.lost += 1;
            return Ok((None, None));
        };
        match coordination.act(&membership.member, step, action) {
            Ok(outcome) => {
                self.counts.answered += 1;
                Ok((Some(outcome), self.reached(now())))
            }
            Err(CoordinationError::Refused(refusal))
                if refusal.kind != RefusalKind::EarlierSession =>
            {
                self.note(&refusal);
                self.counts.lost += 1;
                Ok((None, self.reached(now())))
            }
            Err(error) => {
                let change = self.lost_contact(now(), error);
                self.counts.lost += 1;
                Ok((None, change?))
            }
        }
    }

    /// Leaves for good, if the coordinator can be reached.
    pub fn leave(&mut self, coordination: &mut (impl Coordination + ?Sized)) -> Result<()> {
        self.is_connected = false;
        match self.membership.take() {
            Some(membership) => coordination.deregister(&membership.member),
            None => Ok(()),
        }
    }

    fn register(
        &mut self,
        coordination: &mut (impl Coordination + ?Sized),
    ) -> Result<crate::coordination::Member> {
        let outcome = coordination.register(&self.config.name, &self.config.registration);
        if let Err(CoordinationError::Refused(refusal)) = &outcome {
            self.counts.refusals.add(refusal.kind);
            // Another function must be asked for; a retry is refused again.
            if refusal.kind == RefusalKind::NoSeat {
                return Err(CoordinationError::Denied { reason: refusal.reason.clone() });
            }
        }
        let membership = outcome?;
        if membership.step_wait >= self.config.deadline {
            let (wait, deadline) = (membership.step_wait, self.config.deadline);
            let reason = format!(
                "a step may take {wait:?} there, and calls end after {deadline:?}: give --deadline \
                 more than {wait:?}"
            );
            return Err(CoordinationError::Denied { reason });
        }
        self.counts.registrations += 1;
        let member = membership.member.clone();
        self.membership = Some(membership);
        Ok(member)
    }

    /// Counts a refusal; a coordinator that does not know the session is joined again.
    fn note(&mut self, refusal: &Refusal) {
        self.counts.refusals.add(refusal.kind);
        if matches!(refusal.kind, RefusalKind::UnknownAgent | RefusalKind::UnknownSession) {
            self.membership = None;
        }
    }

    fn reached(&mut self, now: Duration) -> Option<Change> {
        self.last_contact = now;
        self.next_look = now;
        self.is_connected = true;
        let outage = self.outage.take();
        if !std::mem::replace(&mut self.has_joined, true) {
            return Some(Change::Joined);
        }
        outage.map(|outage| Change::Rejoined {
            away: now.saturating_sub(outage.since),
            lost: self.counts.lost - outage.lost_before,
        })
    }

    /// Decides whether to try again: an agent that lost its name to another, or was never let in,
    /// does not. One that was let in once does, since tokens may be changed meanwhile.
    fn lost_contact(&mut self, now: Duration, error: CoordinationError) -> Result<Option<Change>> {
        // Half a heartbeat: a coordinator that is back is found within one, and a call that just
        // failed does not make it two.
        let heartbeat = self.membership.as_ref().map(|membership| membership.heartbeat / 2);
        self.next_look = now + heartbeat.unwrap_or(self.config.first_retry);
        let was_connected = std::mem::replace(&mut self.is_connected, false);
        let is_final = match &error {
            CoordinationError::Refused(refusal) => refusal.kind == RefusalKind::EarlierSession,
            CoordinationError::Denied { .. } => self.counts.registrations == 0,
            CoordinationError::Away { .. } => false,
        };
        if is_final {
            return Err(error);
        }
        if self.outage.is_some() {
            return Ok(None);
        }
        self.counts.outages += 1;
        let since = if was_connected { self.last_contact } else { now };
        self.outage = Some(Outage { since, lost_before: self.counts.lost });
        Ok(Some(Change::WentAway { reason: error.to_string() }))
    }
}
