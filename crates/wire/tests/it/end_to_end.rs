//! A coordinator over the network is the same coordinator.

use std::time::{Duration, Instant};

use homeostat_env::Action;
use homeostat_simppo::{
    Coordination, CoordinationError, Coordinator, Member, Membership, RefusalKind, Registration,
    SeatObservation, StepOutcome,
};
use homeostat_wire::{CoordinationClient, CoordinatorServer, ServerConfig};

use crate::setup::{client, client_config, coordinator, join, life, name, serve, server_config};

/// A coordinator at hand: when a step does not end, its clock goes on.
struct AtHand {
    coordinator: Coordinator,
    now: Duration,
}

impl Coordination for AtHand {
    fn register(
        &mut self,
        name: &homeostat_simppo::AgentName,
        registration: &Registration,
    ) -> Result<Membership, CoordinationError> {
        self.coordinator.register(name, registration)
    }
    fn observe(&mut self, member: &Member) -> Result<Option<SeatObservation>, CoordinationError> {
        self.coordinator.observe(member)
    }
    fn act(
        &mut self,
        member: &Member,
        step: u64,
        action: &Action,
    ) -> Result<StepOutcome, CoordinationError> {
        self.coordinator.submit(member, step, action)?;
        loop {
            if let Some(outcome) = self.coordinator.outcome(member, step)? {
                return Ok(outcome);
            }
            self.now += Duration::from_millis(50);
            self.coordinator.advance(self.now);
        }
    }
    fn deregister(&mut self, member: &Member) -> Result<(), CoordinationError> {
        self.coordinator.deregister(member)
    }
}

type Said = Result<(Option<SeatObservation>, Option<StepOutcome>), CoordinationError>;

/// What any coordinator is asked in these tests, and what it answers. The second agent never acts:
/// every step of the first ends at its deadline.
fn conversation(coordination: &mut dyn Coordination) -> Vec<Said> {
    let [a, b] = ["a", "b"].map(|agent| {
        let membership = coordination.register(&name(agent), &life(1)).unwrap();
        assert_eq!(membership.heartbeat, Duration::from_secs(1));
        assert_eq!(membership.timeout, Duration::from_secs(3));
        assert_eq!(membership.step_wait, Duration::from_millis(200));
        assert_eq!((membership.env.as_str(), membership.seats), ("faas/fleet-v3", 2));
        assert_eq!(
            membership.seat.unwrap().function,
            ["first", "second"][usize::from(agent == "b")]
        );
        membership.member
    });
    let mut said = vec![coordination.observe(&b).map(|seen| (seen, None))];
    // Over the end of an episode.
    for step in 0..8 {
        let outcome = coordination.act(&a, step, &Action::Discrete(step as usize % 7));
        said.push(outcome.map(|outcome| (None, Some(outcome))));
    }
    for (step, action) in [(3, 0), (9, 0), (8, 7)] {
        let outcome = coordination.act(&a, step, &Action::Discrete(action));
        said.push(outcome.map(|outcome| (None, Some(outcome))));
    }
    coordination.deregister(&a).unwrap();
    said.push(coordination.observe(&a).map(|seen| (seen, None)));
    said.push(coordination.observe(&b).map(|seen| (seen, None)));
    said
}

#[test]
fn the_network_changes_no_bit_of_what_is_said() {
    let server = serve();
    let remote = conversation(&mut client(&server));
    let mut at_hand = AtHand { coordinator: coordinator(), now: Duration::ZERO };
    assert_eq!(remote, conversation(&mut at_hand));
    let strip = |mut status: homeostat_simppo::CoordinatorStatus| {
        status.clock_jumps = 0;
        status
    };
    let local = strip(at_hand.coordinator.status());
    assert_eq!(server.with(|remote| strip(remote.status())), local);
    assert_eq!((local.accepted, local.missed), (8, 8));
}

#[test]
fn a_step_is_answered_to_all_when_the_last_agent_has_acted() {
    let server = serve();
    let mut clients = [client(&server), client(&server)];
    let members = [join(&mut clients[0], "a"), join(&mut clients[1], "b")];
    let begun = Instant::now();
    let outcomes: Vec<Vec<StepOutcome>> = std::thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .zip(&members)
            .map(|(client, member)| {
                let step = |step| client.act(member, step, &Action::Discrete(0)).unwrap();
                scope.spawn(move || (0..20).map(step).collect())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(begun.elapsed() < Duration::from_secs(3), "no step waits for its deadline");
    for (a, b) in outcomes[0].iter().zip(&outcomes[1]) {
        assert_eq!(a.team_reward, b.team_reward);
        assert!((a.team_reward - (a.reward + b.reward) / 2.0).abs() < 1e-12);
    }
    let status = server.with(|coordinator| coordinator.status());
    assert_eq!((status.step, status.accepted, status.missed), (20, 40, 0));
}

#[test]
fn a_call_to_a_closed_port_ends_soon_and_says_so() {
    let server = serve();
    let mut agent = client(&server);
    join(&mut agent, "a");
    let address = server.address();
    server.stop(|_| ());
    let error = agent.register(&name("a"), &life(1)).unwrap_err();
    assert!(matches!(error, CoordinationError::Away { .. }), "{error}");
    // The same client finds the next coordinator at the same address.
    let config = ServerConfig { listen: address, ..server_config() };
    let _server = CoordinatorServer::start(coordinator(), &config).unwrap();
    join(&mut agent, "a");
}

#[test]
fn a_call_ends_at_its_deadline_even_if_something_listens_and_says_nothing() {
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = serve();
    let mut config = client_config(&server);
    config.url = format!("http://{}", mute.local_addr().unwrap());
    config.deadline = Duration::from_millis(200);
    let begun = Instant::now();
    let mut client = CoordinationClient::new(&config).unwrap();
    let error = client.register(&name("a"), &life(1)).unwrap_err();
    assert!(matches!(error, CoordinationError::Away { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn an_address_that_is_taken_is_refused_with_the_way_out() {
    let server = serve();
    let config = ServerConfig { listen: server.address(), ..server_config() };
    let error = CoordinatorServer::start(coordinator(), &config).err().unwrap().to_string();
    assert!(error.contains("another program listens there"), "{error}");
}

#[test]
fn an_earlier_session_is_refused_by_kind() {
    let server = serve();
    let mut agent = client(&server);
    let earlier = join(&mut agent, "a");
    agent.register(&name("a"), &life(2)).unwrap();
    match agent.observe(&earlier) {
        Err(CoordinationError::Refused(refusal)) => {
            assert_eq!(refusal.kind, RefusalKind::EarlierSession);
        }
        other => panic!("{other:?}"),
    }
}
