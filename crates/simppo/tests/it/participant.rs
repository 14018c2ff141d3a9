//! An agent's side: it goes on while the coordinator is away, and comes back by itself.

use std::time::Duration;

use homeostat_simppo::{
    AgentName, Change, Coordination, CoordinationError, Coordinator, Guidance, Member, Membership,
    Participant, RefusalKind, Transition,
};

use crate::team::{coordinator, join, ms, name};

/// A coordinator that can be unplugged.
struct Line {
    coordinator: Coordinator,
    is_cut: bool,
    calls: u64,
}

impl Line {
    fn new() -> Self {
        Self { coordinator: coordinator(), is_cut: false, calls: 0 }
    }

    fn pass<T>(
        &mut self,
        call: impl FnOnce(&mut Coordinator) -> Result<T, CoordinationError>,
    ) -> Result<T, CoordinationError> {
        self.calls += 1;
        if self.is_cut {
            return Err(CoordinationError::Away { reason: "unplugged".to_owned() });
        }
        call(&mut self.coordinator)
    }
}

impl Coordination for Line {
    fn register(
        &mut self,
        name: &AgentName,
        incarnation: u64,
    ) -> Result<Membership, CoordinationError> {
        self.pass(|coordinator| coordinator.register(name, incarnation))
    }
    fn heartbeat(&mut self, member: &Member) -> Result<(), CoordinationError> {
        self.pass(|coordinator| coordinator.heartbeat(member))
    }
    fn observe(
        &mut self,
        member: &Member,
        transition: &Transition,
    ) -> Result<Guidance, CoordinationError> {
        self.pass(|coordinator| coordinator.observe(member, transition))
    }
    fn global_state(&mut self, member: &Member) -> Result<Guidance, CoordinationError> {
        self.pass(|coordinator| coordinator.global_state(member))
    }
    fn deregister(&mut self, member: &Member) -> Result<(), CoordinationError> {
        self.pass(|coordinator| coordinator.deregister(member))
    }
}

fn participant(incarnation: u64) -> Participant {
    Participant::new(name("a"), incarnation, ms(500))
}

const STEP: (&[f32], u32, f64) = (&[0.5; 7], 1, 0.25);

fn deliver(agent: &mut Participant, line: &mut Line, now: Duration) -> Option<Guidance> {
    agent.deliver(line, now, STEP).unwrap().0
}

#[test]
fn the_first_step_joins_and_brings_guidance() {
    let (mut agent, mut line) = (participant(1), Line::new());
    let (guidance, change) = agent.deliver(&mut line, ms(0), STEP).unwrap();
    assert_eq!(guidance.map(|guidance| guidance.team_reward), Some(0.25));
    assert_eq!(change, Some(Change::Joined));
    assert_eq!(agent.next_due(), ms(1000), "a heartbeat later");
}

#[test]
fn heartbeats_are_sent_only_when_nothing_else_was() {
    let (mut agent, mut line) = (participant(1), Line::new());
    for quarter in 0..40 {
        deliver(&mut agent, &mut line, ms(250 * quarter));
        agent.keep_alive(&mut line, ms(250 * quarter)).unwrap();
    }
    assert_eq!(line.calls, 41, "one registration and forty steps");
    agent.keep_alive(&mut line, ms(250 * 39 + 1000)).unwrap();
    assert_eq!(line.calls, 42);
}

#[test]
fn an_outage_costs_the_steps_in_it_and_they_are_counted_on_both_sides() {
    let (mut agent, mut line) = (participant(1), Line::new());
    deliver(&mut agent, &mut line, ms(0));
    line.is_cut = true;
    let went = agent.deliver(&mut line, ms(100), STEP).unwrap().1;
    assert!(matches!(went, Some(Change::WentAway { .. })), "{went:?}");
    let calls = line.calls;
    for tenth in 2..6 {
        assert_eq!(deliver(&mut agent, &mut line, ms(100 * tenth)), None);
    }
    assert_eq!(line.calls, calls, "nobody is called again for half a heartbeat");
    line.is_cut = false;
    let (guidance, change) = agent.deliver(&mut line, ms(600), STEP).unwrap();
    assert!(guidance.is_some());
    assert_eq!(change, Some(Change::Rejoined { away: ms(600), undelivered: 5 }));
    assert_eq!((agent.counts().delivered, agent.counts().undelivered), (2, 5));
    assert_eq!((agent.counts().outages, agent.counts().registrations), (1, 1));
    assert_eq!(line.coordinator.standing().missed, 5);
}

#[test]
fn a_coordinator_that_forgot_everything_is_joined_again_in_the_same_call() {
    let (mut agent, mut line) = (participant(1), Line::new());
    for tenth in 0..5 {
        deliver(&mut agent, &mut line, ms(100 * tenth));
    }
    line.coordinator = coordinator();
    assert!(deliver(&mut agent, &mut line, ms(500)).is_some());
    assert_eq!(agent.counts().registrations, 2);
    assert_eq!(line.coordinator.standing().missed, 0, "a new session counts from one");
    line.coordinator = coordinator();
    agent.keep_alive(&mut line, ms(1500)).unwrap();
    assert!(deliver(&mut agent, &mut line, ms(1600)).is_some());
    assert_eq!(line.coordinator.standing().missed, 0, "whoever called first");
}

#[test]
fn a_refused_step_is_counted_and_the_agent_goes_on() {
    let (mut agent, mut line) = (participant(1), Line::new());
    let poisoned = agent.deliver(&mut line, ms(0), (&[f32::NAN; 7], 1, 0.0)).unwrap();
    assert_eq!(poisoned.0, None);
    assert!(agent.is_connected());
    assert_eq!(agent.counts().refusals.of(RefusalKind::NotFinite), 1);
    assert!(deliver(&mut agent, &mut line, ms(100)).is_some());
}

#[test]
fn whoever_lost_its_name_to_another_is_told_so() {
    let (mut agent, mut line) = (participant(1), Line::new());
    deliver(&mut agent, &mut line, ms(0));
    join(&mut line.coordinator, "a", 2);
    let error = agent.deliver(&mut line, ms(100), STEP).unwrap_err().to_string();
    assert!(error.contains("another agent has registered under this name"), "{error}");
}

#[test]
fn leaving_takes_the_agent_out_of_the_team() {
    let (mut agent, mut line) = (participant(1), Line::new());
    deliver(&mut agent, &mut line, ms(0));
    agent.leave(&mut line).unwrap();
    assert_eq!(line.coordinator.standing().members, 0);
    assert_eq!(line.coordinator.agents().count(), 0);
}

#[test]
fn steps_that_were_skipped_are_missed() {
    let (mut agent, mut line) = (participant(1), Line::new());
    deliver(&mut agent, &mut line, ms(0));
    agent.skip(3);
    deliver(&mut agent, &mut line, ms(100));
    assert_eq!((agent.counts().undelivered, line.coordinator.standing().missed), (3, 3));
}

#[test]
fn a_coordinator_that_is_not_there_yet_is_waited_for() {
    let (mut agent, mut line) = (participant(1), Line::new());
    line.is_cut = true;
    let away = agent.keep_alive(&mut line, ms(0)).unwrap();
    assert!(matches!(away, Some(Change::WentAway { .. })), "{away:?}");
    assert_eq!(deliver(&mut agent, &mut line, ms(100)), None);
    assert_eq!((line.calls, agent.next_due()), (1, ms(500)));
    line.is_cut = false;
    assert_eq!(agent.keep_alive(&mut line, ms(500)).unwrap(), Some(Change::Joined));
    assert!(deliver(&mut agent, &mut line, ms(600)).is_some());
}
