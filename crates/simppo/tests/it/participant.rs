//! An agent's side: it acts while the coordinator is there, and comes back by itself.

use std::time::Duration;

use homeostat_env::Action;
use homeostat_simppo::{
    AgentName, Change, Coordination, CoordinationError, Coordinator, Member, Membership,
    Participant, ParticipantConfig, RefusalKind, Registration, SeatObservation, StepOutcome,
};

use crate::team::{HOLD, config, hosting, join, life, ms, name, stage};

/// A coordinator with one seat that can be unplugged.
struct Line {
    coordinator: Coordinator,
    is_cut: bool,
    calls: u64,
}

fn coordinator() -> Coordinator {
    hosting(config(), &stage(1))
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
        registration: &Registration,
    ) -> Result<Membership, CoordinationError> {
        self.pass(|coordinator| coordinator.register(name, registration))
    }
    fn observe(&mut self, member: &Member) -> Result<Option<SeatObservation>, CoordinationError> {
        self.pass(|coordinator| coordinator.observe(member))
    }
    fn act(
        &mut self,
        member: &Member,
        step: u64,
        action: &Action,
    ) -> Result<StepOutcome, CoordinationError> {
        self.pass(|coordinator| {
            coordinator.submit(member, step, action)?;
            Ok(coordinator.outcome(member, step)?.expect("there is one seat"))
        })
    }
    fn deregister(&mut self, member: &Member) -> Result<(), CoordinationError> {
        self.pass(|coordinator| coordinator.deregister(member))
    }
}

fn participant(incarnation: u64) -> Participant {
    Participant::new(ParticipantConfig {
        name: name("a"),
        registration: life(incarnation),
        first_retry: ms(500),
        deadline: ms(5000),
    })
}

type Observed = (Option<SeatObservation>, Option<Change>);

fn observe(agent: &mut Participant, line: &mut Line, now: Duration) -> Observed {
    agent.observe(line, now).unwrap()
}

fn act(
    agent: &mut Participant,
    line: &mut Line,
    now: Duration,
    step: u64,
) -> (Option<StepOutcome>, Option<Change>) {
    agent.act(line, &|| now, step, &HOLD).unwrap()
}

#[test]
fn the_first_look_joins_and_every_action_brings_the_next_observation() {
    let (mut agent, mut line) = (participant(1), Line::new());
    let (seen, change) = observe(&mut agent, &mut line, ms(0));
    assert_eq!((seen.unwrap().step, change), (0, Some(Change::Joined)));
    for step in 0..10 {
        let (outcome, change) = act(&mut agent, &mut line, ms(100 * step), step);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.reward, outcome.team_reward), (1.0, 1.0));
        assert_eq!((outcome.next.unwrap().step, change), (step + 1, None));
    }
    assert_eq!(line.calls, 12, "one registration, one look and ten actions");
    assert_eq!((agent.counts().answered, agent.counts().lost), (10, 0));
}

#[test]
fn an_outage_costs_the_action_in_it_and_is_found_to_be_over_within_half_a_heartbeat() {
    let (mut agent, mut line) = (participant(1), Line::new());
    observe(&mut agent, &mut line, ms(0));
    act(&mut agent, &mut line, ms(50), 0);
    line.is_cut = true;
    let (outcome, change) = act(&mut agent, &mut line, ms(100), 1);
    assert!(outcome.is_none());
    assert!(matches!(change, Some(Change::WentAway { .. })), "{change:?}");
    let calls = line.calls;
    for tenth in 2..6 {
        assert_eq!(observe(&mut agent, &mut line, ms(100 * tenth)), (None, None));
    }
    assert_eq!(line.calls, calls, "no call for half a heartbeat");
    line.is_cut = false;
    let (seen, change) = observe(&mut agent, &mut line, ms(600));
    assert_eq!(seen.unwrap().step, 1, "a platform on which no agent acts stands still");
    assert_eq!(change, Some(Change::Rejoined { away: ms(550), lost: 1 }));
    assert_eq!((agent.counts().outages, agent.counts().registrations), (1, 1));
}

#[test]
fn a_coordinator_that_forgot_everything_is_joined_again_in_the_same_call() {
    let (mut agent, mut line) = (participant(1), Line::new());
    observe(&mut agent, &mut line, ms(0));
    act(&mut agent, &mut line, ms(0), 0);
    line.coordinator = coordinator();
    assert!(act(&mut agent, &mut line, ms(100), 1).0.is_none());
    assert_eq!(observe(&mut agent, &mut line, ms(100)).0.unwrap().step, 0);
    assert_eq!((agent.counts().registrations, agent.counts().lost), (2, 1));
    line.coordinator = coordinator();
    assert!(observe(&mut agent, &mut line, ms(5000)).0.is_some());
    assert_eq!(agent.counts().registrations, 3);
}

#[test]
fn a_refused_action_is_counted_and_the_agent_looks_again_at_once() {
    let (mut agent, mut line) = (participant(1), Line::new());
    observe(&mut agent, &mut line, ms(0));
    assert!(act(&mut agent, &mut line, ms(100), 17).0.is_none());
    assert!(agent.is_connected());
    assert_eq!(agent.counts().refusals.of(RefusalKind::StepAhead), 1);
    assert_eq!((agent.counts().lost, agent.next_look()), (1, ms(100)));
    assert_eq!(observe(&mut agent, &mut line, ms(100)).0.unwrap().step, 0);
}

#[test]
fn an_agent_without_a_seat_looks_again_every_half_heartbeat() {
    let mut line = Line::new();
    let seated = join(&mut line.coordinator, "b", 1);
    let mut agent = participant(1);
    let (seen, change) = observe(&mut agent, &mut line, ms(0));
    assert_eq!((seen, change), (None, Some(Change::Joined)));
    assert_eq!(agent.next_look(), ms(500));
    line.coordinator.deregister(&seated).unwrap();
    assert!(observe(&mut agent, &mut line, ms(500)).0.is_some());
}

#[test]
fn an_agent_that_lost_its_name_to_another_is_told_so() {
    let (mut agent, mut line) = (participant(1), Line::new());
    observe(&mut agent, &mut line, ms(0));
    join(&mut line.coordinator, "a", 2);
    let error = agent.act(&mut line, &|| ms(100), 0, &HOLD).unwrap_err().to_string();
    assert!(error.contains("another agent has registered under this name"), "{error}");
}

#[test]
fn a_platform_that_cannot_serve_the_agent_is_left_with_the_way_out() {
    let mut line = Line::new();
    let check = |config: ParticipantConfig, line: &mut Line, expect: &str| {
        let error = Participant::new(config).observe(line, ms(0)).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    let sound = ParticipantConfig {
        name: name("a"),
        registration: life(1),
        first_retry: ms(500),
        deadline: ms(500),
    };
    check(sound.clone(), &mut line, "give --deadline more than 500ms");
    let registration = Registration { incarnation: 2, function: Some("gpu".to_owned()) };
    check(
        ParticipantConfig { registration, deadline: ms(5000), ..sound },
        &mut line,
        "is no function of this platform",
    );
}

#[test]
fn leaving_frees_the_seat() {
    let (mut agent, mut line) = (participant(1), Line::new());
    observe(&mut agent, &mut line, ms(0));
    agent.leave(&mut line).unwrap();
    assert_eq!(line.coordinator.status().members, 0);
    assert_eq!(line.coordinator.agents().count(), 0);
}

#[test]
fn a_coordinator_that_is_not_there_yet_is_waited_for() {
    let (mut agent, mut line) = (participant(1), Line::new());
    line.is_cut = true;
    let away = observe(&mut agent, &mut line, ms(0)).1;
    assert!(matches!(away, Some(Change::WentAway { .. })), "{away:?}");
    assert_eq!((line.calls, agent.next_look()), (1, ms(500)));
    line.is_cut = false;
    let (seen, change) = observe(&mut agent, &mut line, ms(500));
    assert!(seen.is_some());
    assert_eq!(change, Some(Change::Joined));
}
