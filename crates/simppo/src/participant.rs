//! An agent's side of the coordination: joins, says that it is alive, hands over transitions,
//! and comes back by itself when the coordinator was away.
//!
//! It keeps nothing for later: a transition that cannot be delivered now is counted and gone,
//! since the coordinator wants to know how things are and not how they were.

use std::time::Duration;

use crate::coordination::{
    AgentName, Coordination, CoordinationError, Guidance, Membership, Result, Transition,
};
use crate::{RefusalCounts, RefusalKind};

/// One agent in a team.
#[derive(Debug, Clone)]
pub struct Participant {
    name: AgentName,
    incarnation: u64,
    membership: Option<Membership>,
    /// Steps of this session, delivered or not.
    sequence: u64,
    has_joined: bool,
    is_connected: bool,
    last_contact: Duration,
    /// While the coordinator is away: not to be called again before.
    next_try: Duration,
    first_retry: Duration,
    outage: Option<Outage>,
    counts: DeliveryCounts,
}

/// What became of an agent's transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliveryCounts {
    /// Taken in by the coordinator.
    pub delivered: u64,
    /// Never arrived, as far as the agent knows: nobody answered.
    pub undelivered: u64,
    /// Refused by the coordinator, and other messages that it refused.
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
        /// Transitions that were not delivered in between.
        undelivered: u64,
    },
}

#[derive(Debug, Clone, Copy)]
struct Outage {
    since: Duration,
    undelivered_before: u64,
}

impl Participant {
    /// An agent that has not joined yet. Until a coordinator has told it how often it wants to
    /// be called, it tries every `first_retry`. `incarnation` is a number that no other life of
    /// the agent has.
    pub fn new(name: AgentName, incarnation: u64, first_retry: Duration) -> Self {
        Self {
            name,
            incarnation,
            membership: None,
            sequence: 0,
            has_joined: false,
            is_connected: false,
            last_contact: Duration::ZERO,
            next_try: Duration::ZERO,
            first_retry,
            outage: None,
            counts: DeliveryCounts::default(),
        }
    }

    /// Whether the coordinator answered the last call.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// What it was told when it joined.
    pub fn membership(&self) -> Option<&Membership> {
        self.membership.as_ref()
    }

    /// What became of its transitions so far.
    pub fn counts(&self) -> &DeliveryCounts {
        &self.counts
    }

    /// The moment of the next [`Participant::keep_alive`].
    pub fn next_due(&self) -> Duration {
        match &self.membership {
            Some(membership) if self.is_connected => self.last_contact + membership.heartbeat,
            _ => self.next_try,
        }
    }

    /// Hands over a step: the state it led to, the action and the agent's own reward. Without
    /// guidance it did not arrive, or was refused; either way it is counted.
    ///
    /// An error means that calling again will not help.
    pub fn deliver(
        &mut self,
        coordination: &mut (impl Coordination + ?Sized),
        now: Duration,
        (state, action, reward): (&[f32], u32, f64),
    ) -> Result<(Option<Guidance>, Option<Change>)> {
        self.sequence += 1;
        if !self.is_connected && now < self.next_try {
            self.counts.undelivered += 1;
            return Ok((None, None));
        }
        let mut transition = Transition { sequence: 0, state: state.to_vec(), action, reward };
        let outcome = self.call(coordination, 1, |coordination, participant, membership| {
            transition.sequence = participant.sequence;
            coordination.observe(&membership.member, &transition)
        });
        match outcome {
            Ok(guidance) => {
                self.counts.delivered += 1;
                Ok((Some(guidance), self.reached(now)))
            }
            Err(CoordinationError::Refused(refusal))
                if refusal.kind != RefusalKind::EarlierSession =>
            {
                Ok((None, self.reached(now)))
            }
            Err(CoordinationError::Away { reason }) => {
                let change = self.lost(now, reason);
                self.counts.undelivered += 1;
                Ok((None, change))
            }
            Err(error) => {
                self.lost(now, error.to_string());
                self.counts.undelivered += 1;
                Err(error)
            }
        }
    }

    /// Counts steps that were never handed over.
    pub fn skip(&mut self, steps: u64) {
        self.sequence += steps;
        self.counts.undelivered += steps;
    }

    /// Joins, comes back or says that it is alive, whichever is due.
    ///
    /// An error means that calling again will not help.
    pub fn keep_alive(
        &mut self,
        coordination: &mut (impl Coordination + ?Sized),
        now: Duration,
    ) -> Result<Option<Change>> {
        if now < self.next_due() {
            return Ok(None);
        }
        let outcome = self.call(coordination, 0, |coordination, _, membership| {
            coordination.heartbeat(&membership.member)
        });
        match outcome {
            Ok(()) => Ok(self.reached(now)),
            // Full, for example: somebody may leave.
            Err(CoordinationError::Refused(refusal))
                if refusal.kind != RefusalKind::EarlierSession =>
            {
                Ok(self.lost(now, refusal.reason))
            }
            Err(CoordinationError::Away { reason }) => Ok(self.lost(now, reason)),
            Err(error) => {
                self.lost(now, error.to_string());
                Err(error)
            }
        }
    }

    /// Leaves for good, if the coordinator can be told.
    pub fn leave(&mut self, coordination: &mut (impl Coordination + ?Sized)) -> Result<()> {
        self.is_connected = false;
        match self.membership.take() {
            Some(membership) => coordination.deregister(&membership.member),
            None => Ok(()),
        }
    }

    /// Calls as a member: registers before if that is needed, and once more if the coordinator
    /// has forgotten who this is. A new session begins with the `at_hand` steps at hand.
    fn call<C: Coordination + ?Sized, T>(
        &mut self,
        coordination: &mut C,
        at_hand: u64,
        mut call: impl FnMut(&mut C, &Self, &Membership) -> Result<T>,
    ) -> Result<T> {
        let mut has_registered = false;
        loop {
            let membership = match &self.membership {
                Some(membership) => membership.clone(),
                None => {
                    has_registered = true;
                    self.register(coordination, at_hand)?
                }
            };
            let outcome = call(coordination, self, &membership);
            let Err(CoordinationError::Refused(refusal)) = &outcome else { return outcome };
            self.counts.refusals.add(refusal.kind);
            let is_forgotten = matches!(
                refusal.kind,
                RefusalKind::UnknownAgent | RefusalKind::UnknownSession | RefusalKind::SequenceJump
            );
            if !is_forgotten || has_registered {
                return outcome;
            }
            self.membership = None;
        }
    }

    fn register<C: Coordination + ?Sized>(
        &mut self,
        coordination: &mut C,
        at_hand: u64,
    ) -> Result<Membership> {
        let outcome = coordination.register(&self.name, self.incarnation);
        if let Err(CoordinationError::Refused(refusal)) = &outcome {
            self.counts.refusals.add(refusal.kind);
        }
        let membership = outcome?;
        self.counts.registrations += 1;
        self.sequence = membership.last_sequence.saturating_add(at_hand);
        self.membership = Some(membership.clone());
        Ok(membership)
    }

    fn reached(&mut self, now: Duration) -> Option<Change> {
        self.last_contact = now;
        self.is_connected = true;
        let outage = self.outage.take();
        if !std::mem::replace(&mut self.has_joined, true) {
            return Some(Change::Joined);
        }
        outage.map(|outage| Change::Rejoined {
            away: now.saturating_sub(outage.since),
            undelivered: self.counts.undelivered - outage.undelivered_before,
        })
    }

    fn lost(&mut self, now: Duration, reason: String) -> Option<Change> {
        // Half a heartbeat: whoever comes back is greeted within one, and a call that just
        // failed does not make it two.
        let retry = self.membership.as_ref().map_or(self.first_retry, |told| told.heartbeat / 2);
        self.next_try = now + retry;
        let was_connected = std::mem::replace(&mut self.is_connected, false);
        if self.outage.is_some() {
            return None;
        }
        self.counts.outages += 1;
        let since = if was_connected { self.last_contact } else { now };
        self.outage = Some(Outage { since, undelivered_before: self.counts.undelivered });
        Some(Change::WentAway { reason })
    }
}
