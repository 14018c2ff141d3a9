//! The coordinator: it hosts the shared platform, gives agents seats on it, and plays a step when
//! every agent has acted or a deadline has passed (Section 4.7.2 of the dissertation).
//!
//! It has no clock and no network: its caller calls [`Coordinator::advance`] with the time and
//! hands over the messages. A crashed, slow or malicious agent changes its own record and what its
//! own function does, nothing else.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use homeostat_core::AgentId;
use homeostat_env::{Action, MultiAgentEnv, Task};

use crate::coordination::{
    AgentName, CoordinationError, Member, Membership, Registration, Result, SeatObservation,
    Session, StepOutcome,
};
use crate::guarded_clock::GuardedClock;
use crate::{Error, Refusal, RefusalCounts, RefusalKind};

mod persist;
mod platform;
mod record;
mod status;

use platform::Platform;
use record::Record;
pub use status::{AgentStatus, CoordinatorStatus};

/// Settings of a coordinator.
#[derive(Debug, Clone, PartialEq)]
pub struct CoordinatorConfig {
    /// How often each agent should be heard from.
    pub heartbeat: Duration,
    /// After how long a silence a step no longer waits for an agent, and another may have its seat.
    pub timeout: Duration,
    /// How long a step waits for the others once the first agent has acted.
    pub step_deadline: Duration,
    /// The least time from one step of the platform to the next.
    pub pace: Duration,
    /// Agents to remember at most, silent ones included.
    pub max_agents: usize,
    /// Everything random on the platform follows from it.
    pub seed: u64,
    /// A number larger than that of any earlier start of this coordinator. One that is restored
    /// from a checkpoint sees to it by itself.
    pub life: u64,
}

impl Default for CoordinatorConfig {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(1),
            timeout: Duration::from_secs(3),
            step_deadline: Duration::from_secs(1),
            pace: Duration::ZERO,
            max_agents: 10_000,
            seed: 0,
            life: 1,
        }
    }
}

impl CoordinatorConfig {
    /// A coordinator without agents, which hosts this environment with these tasks.
    pub fn build(self, env: Box<dyn MultiAgentEnv>, tasks: &[Task]) -> Result<Coordinator, Error> {
        let refuse =
            |setting, need: String, value: String| Err(Error::Setting { setting, need, value });
        let Self { heartbeat, timeout, step_deadline, pace, max_agents, seed, .. } = self;
        if heartbeat < Duration::from_millis(1) || heartbeat > Duration::from_secs(3600) {
            let need = "from 1ms to 1h".to_owned();
            return refuse("heartbeat", need, format!("{heartbeat:?}"));
        }
        // A jump of the clock counts as one heartbeat: an agent that was heard a heartbeat ago
        // must survive it.
        if timeout < 2 * heartbeat || timeout > Duration::from_secs(86_400) {
            let need = format!("from two heartbeats ({:?}) to a day", 2 * heartbeat);
            return refuse("timeout", need, format!("{timeout:?}"));
        }
        if step_deadline < Duration::from_millis(1) || step_deadline > MAX_STEP_WAIT {
            let need = format!("from 1ms to {MAX_STEP_WAIT:?}");
            return refuse("step_deadline", need, format!("{step_deadline:?}"));
        }
        if pace > MAX_STEP_WAIT {
            return refuse("pace", format!("at most {MAX_STEP_WAIT:?}"), format!("{pace:?}"));
        }
        if !(1..=1_000_000).contains(&max_agents) {
            return refuse("max_agents", "from 1 to 1000000".to_owned(), max_agents.to_string());
        }
        let platform = Platform::new(env, tasks, seed)?;
        Ok(Coordinator::new(self, platform))
    }
}

/// An agent waits for its answer on an open connection: not for hours.
const MAX_STEP_WAIT: Duration = Duration::from_secs(600);

/// Events that are kept until they are taken; beyond, the oldest go.
const MAX_EVENTS: usize = 4096;

/// A coordinator.
pub struct Coordinator {
    config: CoordinatorConfig,
    clock: GuardedClock,
    /// No agent can time out before.
    next_check: Duration,
    sessions_given: u64,
    records: BTreeMap<AgentName, Record>,
    platform: Platform,
    /// When the last step was played.
    stepped_at: Duration,
    /// When the first agent acted in the step that comes next.
    first_action: Option<Duration>,
    accepted: u64,
    missed: u64,
    refusals: RefusalCounts,
    events: VecDeque<CoordinatorEvent>,
    events_dropped: u64,
}

/// Something worth a line in a log.
#[derive(Debug, Clone, PartialEq)]
pub enum CoordinatorEvent {
    /// An agent registered.
    Joined {
        /// Who.
        name: AgentName,
        /// Its new session.
        session: Session,
        /// Whether the name was known from an earlier life.
        is_rejoin: bool,
    },
    /// An agent fell silent: steps no longer wait for it.
    TimedOut {
        /// Who.
        name: AgentName,
    },
    /// An agent that had fallen silent was heard again.
    Returned {
        /// Who.
        name: AgentName,
    },
    /// The first sign of life of an agent that this coordinator knows from its checkpoint.
    HeardAgain {
        /// Who.
        name: AgentName,
    },
    /// An agent left for good.
    Left {
        /// Who.
        name: AgentName,
    },
    /// A message was refused; told for the first, second, fourth, eighth... of a kind.
    Refused {
        /// Who it said it was, if that is somebody.
        name: Option<AgentName>,
        /// What was wrong.
        refusal: Refusal,
        /// How many of this kind there were of this agent.
        count: u64,
    },
}

impl Coordinator {
    fn new(config: CoordinatorConfig, platform: Platform) -> Self {
        Self {
            clock: GuardedClock::new(config.heartbeat),
            next_check: Duration::ZERO,
            sessions_given: 0,
            records: BTreeMap::new(),
            platform,
            stepped_at: Duration::ZERO,
            first_action: None,
            accepted: 0,
            missed: 0,
            refusals: RefusalCounts::default(),
            events: VecDeque::new(),
            events_dropped: 0,
            config,
        }
    }

    /// Its settings.
    pub fn config(&self) -> &CoordinatorConfig {
        &self.config
    }

    /// The longest time until an action is answered.
    pub fn step_wait(&self) -> Duration {
        self.config.pace + self.config.step_deadline
    }

    /// Takes a reading of the caller's clock, counted from any moment; marks agents that have been
    /// silent for too long, and plays the step that is due. To be called before every message, and
    /// at least once per heartbeat: a longer step counts as one heartbeat, and a step back as none.
    pub fn advance(&mut self, reading: Duration) {
        self.clock.read(reading);
        let now = self.clock.now();
        if now >= self.next_check {
            self.mark_silent(now);
        }
        self.play_if_due();
    }

    fn mark_silent(&mut self, now: Duration) {
        let mut next_check = now + self.config.timeout;
        let mut timed_out = Vec::new();
        for (name, record) in &mut self.records {
            if record.is_silent {
                continue;
            }
            // An agent that waits for its answer cannot say anything else meanwhile.
            if record.action.is_some() {
                record.last_heard = now;
            }
            let ends = record.last_heard + self.config.timeout;
            if ends < now {
                record.is_silent = true;
                record.timeouts += 1;
                timed_out.push(name.clone());
            } else {
                next_check = next_check.min(ends);
            }
        }
        self.next_check = next_check;
        for name in timed_out {
            self.tell(CoordinatorEvent::TimedOut { name });
        }
    }

    /// Plays a step if every living agent with a seat has acted, or the deadline has passed since
    /// the first of them did. A seat without an action holds. A platform on which no agent acts
    /// stands still.
    fn play_if_due(&mut self) {
        let (Some(first), None) = (self.first_action, &self.platform.failure) else { return };
        let now = self.clock.now();
        let mut members = self.records.values().filter(|record| record.is_member());
        let is_complete = members.all(|record| record.action.is_some());
        let is_due = is_complete || now >= first + self.config.step_deadline;
        if !is_due || now < self.stepped_at + self.config.pace {
            return;
        }
        let step = self.platform.step;
        let mut actions: Vec<(AgentId, Action)> = Vec::new();
        for record in self.records.values_mut() {
            let Some(seat) = record.seat else { continue };
            match record.action.take() {
                Some(action) => {
                    record.accepted += 1;
                    self.accepted += 1;
                    record.acted_in = Some(step);
                    actions.push((seat, action));
                }
                None => {
                    record.missed += 1;
                    self.missed += 1;
                }
            }
        }
        self.platform.play(actions.into_iter());
        (self.stepped_at, self.first_action) = (now, None);
    }

    /// Why the platform can play no further step, if it cannot.
    pub fn failure(&self) -> Option<&Error> {
        self.platform.failure.as_ref()
    }

    /// What has happened since the last call.
    pub fn take_events(&mut self) -> Vec<CoordinatorEvent> {
        self.events.drain(..).collect()
    }

    /// Counts a message that was refused before it could be understood.
    pub fn count_refused(&mut self, refusal: &Refusal) {
        self.note_refusal(None, refusal);
    }

    /// Checks the session of a sender, and notes that it was heard.
    fn hear(&mut self, member: &Member) -> Result<(), Refusal> {
        let now = self.clock.now();
        let Some(record) = self.records.get_mut(&member.name) else {
            return Err(Refusal::new(
                RefusalKind::UnknownAgent,
                format!("no agent is registered as {}: register first", member.name),
            ));
        };
        let (given, current) = (member.session, record.session);
        if given < current {
            let reason = format!(
                "session {given} of {} ended when session {current} began: another agent has \
                 registered under this name",
                member.name
            );
            return Err(Refusal::new(RefusalKind::EarlierSession, reason));
        }
        if given > current {
            let reason = format!("session {given} of {} is not known: register again", member.name);
            return Err(Refusal::new(RefusalKind::UnknownSession, reason));
        }
        record.last_heard = now;
        let was_silent = std::mem::replace(&mut record.is_silent, false);
        let was_heard = std::mem::replace(&mut record.is_heard, true);
        let name = member.name.clone();
        if was_silent {
            self.tell(CoordinatorEvent::Returned { name });
        } else if !was_heard {
            self.tell(CoordinatorEvent::HeardAgain { name });
        }
        Ok(())
    }

    fn membership(&self, member: Member) -> Membership {
        let seat = self.records.get(&member.name).and_then(|record| record.seat);
        Membership {
            member,
            seat: seat.and_then(|seat| self.platform.seat(seat)),
            env: self.platform.env_id(),
            seats: self.platform.seat_count() as u32,
            heartbeat: self.config.heartbeat,
            timeout: self.config.timeout,
            step_wait: self.step_wait(),
        }
    }

    /// Gives an agent without a seat one: a free one, else that of the agent that has been silent
    /// for longest.
    fn find_seat(&mut self, name: &AgentName) {
        let Some(record) = self.records.get(name).filter(|record| record.seat.is_none()) else {
            return;
        };
        let fits =
            |function: &str| record.function.as_deref().is_none_or(|wanted| wanted == function);
        let holder =
            |seat: AgentId| self.records.iter().find(|(_, record)| record.seat == Some(seat));
        let seats = || self.platform.seats().filter(|(_, function)| fits(function));
        let free = seats().map(|(seat, _)| seat).find(|seat| holder(*seat).is_none());
        let silent = seats().filter_map(|(seat, _)| {
            let (name, record) = holder(seat).filter(|(_, record)| record.is_silent)?;
            Some((record.last_heard, seat, name.clone()))
        });
        let (seat, loser) = match free {
            Some(seat) => (Some(seat), None),
            None => silent
                .min_by_key(|(last_heard, ..)| *last_heard)
                .map_or((None, None), |(_, seat, loser)| (Some(seat), Some(loser))),
        };
        if let Some(record) = loser.and_then(|loser| self.records.get_mut(&loser)) {
            record.seat = None;
        }
        if let Some(record) = self.records.get_mut(name) {
            record.seat = seat;
        }
    }

    fn take_in(&mut self, member: &Member, step: u64, action: &Action) -> Result<(), Refusal> {
        self.hear(member)?;
        let now_at = self.platform.step;
        let record = self.records.get_mut(&member.name).expect("it was heard");
        if record.seat.is_none() {
            let reason = format!("{} has no seat: wait until one is free", member.name);
            return Err(Refusal::new(RefusalKind::NoSeat, reason));
        }
        if step < now_at {
            let reason = format!("step {step} is over: the platform is at step {now_at}");
            return Err(Refusal::new(RefusalKind::Late, reason));
        }
        if step > now_at {
            let reason = format!("step {step} is still to come: the platform is at step {now_at}");
            return Err(Refusal::new(RefusalKind::StepAhead, reason));
        }
        if record.action.is_some() {
            let reason = format!("an action of {} in step {step} was taken in", member.name);
            return Err(Refusal::new(RefusalKind::Duplicate, reason));
        }
        self.platform.check(action)?;
        record.action = Some(action.clone());
        self.first_action.get_or_insert(self.clock.now());
        self.play_if_due();
        Ok(())
    }

    fn outcome_of(&mut self, member: &Member, step: u64) -> Result<Option<StepOutcome>, Refusal> {
        self.hear(member)?;
        let members = self.records.values().filter(|record| record.is_member()).count();
        let record = &self.records[&member.name];
        if record.action.is_some() && self.platform.step == step {
            return Ok(None);
        }
        let is_last = record.acted_in == Some(step) && self.platform.step == step + 1;
        let outcome =
            record.seat.filter(|_| is_last).and_then(|seat| self.platform.outcome(seat, members));
        outcome.map(Some).ok_or_else(|| {
            let reason = format!(
                "the outcome of step {step} is gone: the platform is at step {}",
                self.platform.step
            );
            Refusal::new(RefusalKind::Late, reason)
        })
    }

    /// Makes room for one more, by forgetting the agent that has been silent for longest.
    fn make_room(&mut self) -> Result<(), Refusal> {
        if self.records.len() < self.config.max_agents {
            return Ok(());
        }
        let silent = self.records.iter().filter(|(_, record)| record.is_silent);
        let longest = silent.min_by_key(|(_, record)| record.last_heard);
        let Some(name) = longest.map(|(name, _)| name.clone()) else {
            let most = self.config.max_agents;
            return Err(Refusal::new(
                RefusalKind::Full,
                format!("{most} agents are here, and no more can be remembered"),
            ));
        };
        self.records.remove(&name);
        Ok(())
    }

    fn tell(&mut self, event: CoordinatorEvent) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
            self.events_dropped += 1;
        }
        self.events.push_back(event);
    }

    fn note_refusal(&mut self, name: Option<&AgentName>, refusal: &Refusal) {
        self.refusals.add(refusal.kind);
        let mut count = self.refusals.of(refusal.kind);
        let record = name.and_then(|name| self.records.get_mut(name));
        let name = record.is_some().then(|| name.cloned()).flatten();
        if let Some(record) = record {
            record.refusals.add(refusal.kind);
            count = record.refusals.of(refusal.kind);
        }
        if count.is_power_of_two() {
            self.tell(CoordinatorEvent::Refused { name, refusal: refusal.clone(), count });
        }
    }

    fn answer<T>(&mut self, name: &AgentName, outcome: Result<T, Refusal>) -> Result<T> {
        outcome.map_err(|refusal| {
            self.note_refusal(Some(name), &refusal);
            CoordinationError::Refused(refusal)
        })
    }
}

/// The calls of an agent, as [`crate::Coordination`] has them; an action and its outcome are two,
/// since this code does not wait.
impl Coordinator {
    /// See [`crate::Coordination::register`].
    pub fn register(
        &mut self,
        name: &AgentName,
        registration: &Registration,
    ) -> Result<Membership> {
        let Registration { incarnation, function } = registration;
        if let Some(record) = self.records.get(name)
            && record.incarnation == *incarnation
        {
            let member = Member { name: name.clone(), session: record.session };
            self.observe(&member)?;
            return Ok(self.membership(member));
        }
        let is_rejoin = self.records.contains_key(name);
        let known = self.check_function(function.as_deref());
        let room = known.and_then(|()| if is_rejoin { Ok(()) } else { self.make_room() });
        self.answer(name, room)?;
        self.sessions_given += 1;
        let session = Session { coordinator_life: self.config.life, number: self.sessions_given };
        let now = self.clock.now();
        let record = self.records.entry(name.clone()).or_default();
        record.begin(session, now);
        record.incarnation = *incarnation;
        if record.function != *function {
            record.function.clone_from(function);
            record.seat = None;
        }
        self.find_seat(name);
        self.tell(CoordinatorEvent::Joined { name: name.clone(), session, is_rejoin });
        Ok(self.membership(Member { name: name.clone(), session }))
    }

    fn check_function(&self, function: Option<&str>) -> Result<(), Refusal> {
        let Some(wanted) = function else { return Ok(()) };
        if self.platform.seats().any(|(_, function)| function == wanted) {
            return Ok(());
        }
        let mut functions: Vec<&str> =
            self.platform.seats().map(|(_, function)| function).collect();
        functions.sort_unstable();
        functions.dedup();
        functions.truncate(32);
        // Untrusted text may be long and contain anything.
        let shown: String = wanted.chars().take(AgentName::MAX_LENGTH).collect();
        let reason = format!("{shown:?} is no function of this platform: {}", functions.join(", "));
        Err(Refusal::new(RefusalKind::NoSeat, reason))
    }

    /// See [`crate::Coordination::observe`].
    pub fn observe(&mut self, member: &Member) -> Result<Option<SeatObservation>> {
        let heard = self.hear(member);
        self.answer(&member.name, heard)?;
        self.find_seat(&member.name);
        let seat = self.records.get(&member.name).and_then(|record| record.seat);
        Ok(seat.and_then(|seat| self.platform.observation(seat)))
    }

    /// Takes in an action for a step of the platform, and plays the step if it was the last one.
    pub fn submit(&mut self, member: &Member, step: u64, action: &Action) -> Result<()> {
        let taken = self.take_in(member, step, action);
        self.answer(&member.name, taken)
    }

    /// What the step led to for an agent that acted in it; nothing while the step is not over.
    pub fn outcome(&mut self, member: &Member, step: u64) -> Result<Option<StepOutcome>> {
        let outcome = self.outcome_of(member, step);
        self.answer(&member.name, outcome)
    }

    /// See [`crate::Coordination::deregister`].
    pub fn deregister(&mut self, member: &Member) -> Result<()> {
        let heard = self.hear(member);
        self.answer(&member.name, heard)?;
        self.records.remove(&member.name);
        self.tell(CoordinatorEvent::Left { name: member.name.clone() });
        self.play_if_due();
        Ok(())
    }
}
