//! The coordinator of Section 4.7.2: who is in the team, what each of them did last, and what
//! the others look like to each.
//!
//! It has no clock and no network: whoever runs it calls [`Coordinator::advance`] with the time
//! and hands over the messages. One agent's silence, lies or repetitions change its own record
//! and nobody else's.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use homeostat_decide::{Features, ScalingAction};

use crate::coordination::{
    AgentName, Coordination, CoordinationError, Guidance, Member, Membership, Result, Session,
    Transition,
};
use crate::guarded_clock::GuardedClock;
use crate::{Contribution, Error, Refusal, RefusalCounts, RefusalKind, VirtualAgent};

mod persist;
mod record;
mod standing;

use record::{Part, Record};
pub use standing::{AgentStanding, Standing};

/// Settings of a coordinator.
#[derive(Debug, Clone, PartialEq)]
pub struct CoordinatorConfig {
    /// How often each agent should be heard from.
    pub heartbeat: Duration,
    /// After how long a silence an agent leaves the global state.
    pub timeout: Duration,
    /// Agents to remember at most, silent ones included.
    pub most_agents: usize,
    /// Rewards further from zero are not believed. Those of the serverless worlds lie within 2.
    pub most_reward: f64,
    /// A number larger than that of any earlier life of this coordinator. One that is restored
    /// from a checkpoint sees to it by itself.
    pub life: u64,
}

impl Default for CoordinatorConfig {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(1),
            timeout: Duration::from_secs(3),
            most_agents: 10_000,
            most_reward: 10.0,
            life: 1,
        }
    }
}

impl CoordinatorConfig {
    /// A coordinator that knows nobody yet.
    pub fn build(self) -> Result<Coordinator, Error> {
        let refuse =
            |setting, need: String, value: String| Err(Error::Setting { setting, need, value });
        let Self { heartbeat, timeout, most_agents, most_reward, .. } = self;
        if heartbeat < Duration::from_millis(1) || heartbeat > Duration::from_secs(3600) {
            let need = "from 1ms to 1h".to_owned();
            return refuse("heartbeat", need, format!("{heartbeat:?}"));
        }
        // A jump of the clock counts as one heartbeat: whoever was heard a heartbeat ago must
        // survive it.
        if timeout < 2 * heartbeat || timeout > Duration::from_secs(86_400) {
            let need = format!("from two heartbeats ({:?}) to a day", 2 * heartbeat);
            return refuse("timeout", need, format!("{timeout:?}"));
        }
        if !(1..=1_000_000).contains(&most_agents) {
            return refuse("most_agents", "from 1 to 1000000".to_owned(), most_agents.to_string());
        }
        if !(most_reward > 0.0 && most_reward <= MAX_REWARD) {
            let need = format!("above 0, up to {MAX_REWARD}");
            return refuse("most_reward", need, most_reward.to_string());
        }
        Ok(Coordinator::new(self))
    }
}

/// The most that rewards may be allowed to be: as integers, a million of them still fit.
const MAX_REWARD: f64 = 1e6;

/// Steps that an agent may have made unheard. A year of them at one a second is not a lie.
const MAX_GAP: u64 = 1 << 25;

/// Events that wait for somebody to look at them; beyond, the oldest go.
const MAX_EVENTS: usize = 4096;

/// A coordinator.
#[derive(Debug, Clone)]
pub struct Coordinator {
    config: CoordinatorConfig,
    clock: GuardedClock,
    /// Nobody can time out before: at the last look, this was the first who could, and whoever
    /// was heard since comes later.
    next_check: Duration,
    sessions_given: u64,
    records: BTreeMap<AgentName, Record>,
    /// The living members that have observed something.
    team: VirtualAgent,
    /// Sum of their last rewards, in [`record::REWARD_ONE`] units.
    rewards: i128,
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
    /// A silent agent left the global state.
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
    fn new(config: CoordinatorConfig) -> Self {
        Self {
            clock: GuardedClock::new(config.heartbeat),
            next_check: Duration::ZERO,
            sessions_given: 0,
            records: BTreeMap::new(),
            team: VirtualAgent::default(),
            rewards: 0,
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

    /// Takes a reading of the caller's clock, counted from any moment, and lets go of whoever
    /// has been silent for too long. To be called before every message, and at least once per
    /// heartbeat: a longer step counts as one heartbeat, and a step back as none.
    pub fn advance(&mut self, reading: Duration) {
        self.clock.read(reading);
        let now = self.clock.now();
        if now < self.next_check {
            return;
        }
        let mut next_check = now + self.config.timeout;
        let mut timed_out = Vec::new();
        for (name, record) in &self.records {
            if record.is_silent {
                continue;
            }
            let ends = record.last_heard + self.config.timeout;
            if ends < now {
                timed_out.push(name.clone());
            } else {
                next_check = next_check.min(ends);
            }
        }
        self.next_check = next_check;
        for name in timed_out {
            let record = self.records.get_mut(&name).expect("found above");
            record.is_silent = true;
            record.timeouts += 1;
            let part = record.part.take();
            self.drop_part(part);
            self.tell(CoordinatorEvent::TimedOut { name });
        }
    }

    /// What has happened since the last call.
    pub fn take_events(&mut self) -> Vec<CoordinatorEvent> {
        self.events.drain(..).collect()
    }

    /// Counts a message that was refused before it could be understood.
    pub fn count_refused(&mut self, refusal: &Refusal) {
        self.note_refusal(None, refusal);
    }

    /// The record of whoever speaks, who is thereby heard.
    fn hear(&mut self, member: &Member) -> Result<(), Refusal> {
        let now = self.clock.now();
        let Some(record) = self.records.get_mut(&member.name) else {
            return Err(Refusal::new(
                RefusalKind::UnknownAgent,
                format!("nobody is registered as {}: register first", member.name),
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

    fn take_in(&mut self, member: &Member, transition: &Transition) -> Result<(), Refusal> {
        self.hear(member)?;
        let record = self.records.get_mut(&member.name).expect("it was heard");
        let last = record.last_sequence;
        record.check_sequence(transition.sequence, MAX_GAP)?;
        let missed = transition.sequence - last - 1;
        record.missed += missed;
        self.missed += missed;
        // From here on the number is used up: a transition is accepted, refused or missed, and
        // counted once.
        record.last_sequence = transition.sequence;
        let part = self.check_content(transition)?;
        let record = self.records.get_mut(&member.name).expect("it was heard");
        record.accepted += 1;
        let before = record.part.replace(part);
        self.accepted += 1;
        self.drop_part(before);
        self.team.add(&part.contribution);
        self.rewards += i128::from(part.reward);
        Ok(())
    }

    fn check_content(&self, transition: &Transition) -> Result<Part, Refusal> {
        let Ok(state) = <&[f32; Features::COUNT]>::try_from(transition.state.as_slice()) else {
            let (found, expected) = (transition.state.len(), Features::COUNT);
            return Err(Refusal::new(
                RefusalKind::WrongLength,
                format!("the state has {found} numbers, expected the {expected} of Table 4.1"),
            ));
        };
        for ((name, (low, high)), value) in Features::NAMES.iter().zip(Features::RANGES).zip(state)
        {
            check_number(name, f64::from(*value), f64::from(low), f64::from(high))?;
        }
        let most = self.config.most_reward;
        check_number("reward", transition.reward, -most, most)?;
        let action = usize::try_from(transition.action).ok().and_then(ScalingAction::from_index);
        let Some(action) = action else {
            return Err(Refusal::new(
                RefusalKind::UnknownAction,
                format!("there is no action {}: 0 to 6", transition.action),
            ));
        };
        let contribution = Contribution::new(state, action).expect("every number is finite");
        Ok(Part::new(contribution, transition.reward))
    }

    fn membership(&self, member: Member) -> Membership {
        Membership {
            last_sequence: self.records.get(&member.name).map_or(0, |record| record.last_sequence),
            member,
            heartbeat: self.config.heartbeat,
            timeout: self.config.timeout,
        }
    }

    fn guidance(&self, name: &AgentName) -> Guidance {
        let own = self.records.get(name).and_then(|record| record.part.as_ref());
        let global = match own {
            Some(part) => self.team.of_others(&part.contribution),
            None => self.team.of_all(),
        };
        let members = self.team.count();
        let team_reward = match members {
            0 => 0.0,
            _ => self.rewards as f64 / (record::REWARD_ONE * members as f64),
        };
        Guidance { global, team_reward, members }
    }

    fn drop_part(&mut self, part: Option<Part>) {
        if let Some(part) = part {
            self.team.remove(&part.contribution);
            self.rewards -= i128::from(part.reward);
        }
    }

    /// Makes room for one more, by forgetting whoever has been silent for longest.
    fn make_room(&mut self) -> Result<(), Refusal> {
        if self.records.len() < self.config.most_agents {
            return Ok(());
        }
        let silent = self.records.iter().filter(|(_, record)| record.is_silent);
        let longest = silent.min_by_key(|(_, record)| record.last_heard);
        let Some(name) = longest.map(|(name, _)| name.clone()) else {
            let most = self.config.most_agents;
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

impl Coordination for Coordinator {
    fn register(&mut self, name: &AgentName, incarnation: u64) -> Result<Membership> {
        if let Some(record) = self.records.get(name)
            && record.incarnation == incarnation
        {
            let member = Member { name: name.clone(), session: record.session };
            self.heartbeat(&member)?;
            return Ok(self.membership(member));
        }
        let is_rejoin = self.records.contains_key(name);
        if !is_rejoin {
            let room = self.make_room();
            self.answer(name, room)?;
        }
        self.sessions_given += 1;
        let session = Session { coordinator_life: self.config.life, number: self.sessions_given };
        let now = self.clock.now();
        let record = self.records.entry(name.clone()).or_default();
        // What the earlier life did is over; what was counted of it stays.
        let part = record.part.take();
        record.begin(session, incarnation, now);
        self.drop_part(part);
        self.tell(CoordinatorEvent::Joined { name: name.clone(), session, is_rejoin });
        Ok(self.membership(Member { name: name.clone(), session }))
    }

    fn heartbeat(&mut self, member: &Member) -> Result<()> {
        let heard = self.hear(member);
        self.answer(&member.name, heard)
    }

    fn observe(&mut self, member: &Member, transition: &Transition) -> Result<Guidance> {
        let taken = self.take_in(member, transition);
        self.answer(&member.name, taken)?;
        Ok(self.guidance(&member.name))
    }

    fn global_state(&mut self, member: &Member) -> Result<Guidance> {
        self.heartbeat(member)?;
        Ok(self.guidance(&member.name))
    }

    fn deregister(&mut self, member: &Member) -> Result<()> {
        self.heartbeat(member)?;
        if let Some(record) = self.records.remove(&member.name) {
            self.drop_part(record.part);
        }
        self.tell(CoordinatorEvent::Left { name: member.name.clone() });
        Ok(())
    }
}

fn check_number(name: &str, value: f64, low: f64, high: f64) -> Result<(), Refusal> {
    if !value.is_finite() {
        let reason = format!("{name} is {value}: it must be a number from {low} to {high}");
        return Err(Refusal::new(RefusalKind::NotFinite, reason));
    }
    if !(low..=high).contains(&value) {
        let reason = format!("{name} is {value}: it must lie from {low} to {high}");
        return Err(Refusal::new(RefusalKind::OutOfRange, reason));
    }
    Ok(())
}
