//! A coordinator over the network is the same coordinator.

use std::time::Duration;

use homeostat_simppo::{
    Coordination, CoordinationError, Guidance, Participant, RefusalKind, Transition,
};
use homeostat_wire::{CoordinationClient, CoordinatorServer, ServerConfig};

use crate::setup::{client, client_config, coordinator, name, serve, server_config, step};

/// What any coordinator is told in these tests, and what it answers.
fn conversation(coordination: &mut dyn Coordination) -> Vec<Result<Guidance, CoordinationError>> {
    let [a, b] = ["a", "b"].map(|agent| {
        let membership = coordination.register(&name(agent), 1).unwrap();
        assert_eq!(membership.heartbeat, Duration::from_secs(1));
        assert_eq!(membership.timeout, Duration::from_secs(3));
        membership.member
    });
    let mut answers = Vec::new();
    for sequence in 1..5 {
        answers.push(coordination.observe(&a, &step(sequence, 0.1)));
        answers.push(coordination.observe(&b, &step(2 * sequence, -0.7)));
    }
    coordination.heartbeat(&a).unwrap();
    answers.push(coordination.observe(&a, &step(3, 0.0)));
    answers.push(coordination.observe(&a, &Transition { state: vec![], ..step(5, 0.0) }));
    answers.push(coordination.observe(&a, &step(6, f64::NAN)));
    answers.push(coordination.global_state(&b));
    coordination.deregister(&a).unwrap();
    answers.push(coordination.global_state(&a));
    answers.push(coordination.global_state(&b));
    answers
}

#[test]
fn the_network_changes_no_bit_of_what_is_said() {
    let server = serve();
    let remote = conversation(&mut client(&server));
    let mut local = coordinator();
    assert_eq!(remote, conversation(&mut local));
    let strip = |mut standing: homeostat_simppo::Standing| {
        standing.clock_jumps = 0;
        standing
    };
    assert_eq!(server.with(|remote| strip(remote.standing())), strip(local.standing()));
}

#[test]
fn the_same_agent_runs_over_both() {
    let drive = |coordination: &mut dyn Coordination| {
        let mut agent = Participant::new(name("a"), 1, Duration::from_millis(500));
        let state = step(1, 0.0).state;
        let mut answers = Vec::new();
        for tick in 0..10 {
            let now = Duration::from_millis(100 * tick);
            answers.push(agent.deliver(coordination, now, (&state, 1, 0.5)).unwrap());
        }
        agent.leave(coordination).unwrap();
        (answers, *agent.counts())
    };
    let server = serve();
    assert_eq!(drive(&mut client(&server)), drive(&mut coordinator()));
}

#[test]
fn when_nobody_is_there_a_call_ends_soon_and_says_so() {
    let server = serve();
    let mut agent = client(&server);
    agent.register(&name("a"), 1).unwrap();
    let address = server.address();
    server.stop();
    let error = agent.register(&name("a"), 1).unwrap_err();
    assert!(matches!(error, CoordinationError::Away { .. }), "{error}");
    // The same client finds the next coordinator at the same address.
    let config = ServerConfig { listen: address, ..server_config() };
    let _server = CoordinatorServer::start(coordinator(), &config).unwrap();
    agent.register(&name("a"), 1).unwrap();
}

#[test]
fn a_call_ends_at_its_deadline_even_if_something_listens_and_says_nothing() {
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = serve();
    let mut config = client_config(&server);
    config.url = format!("http://{}", mute.local_addr().unwrap());
    config.deadline = Duration::from_millis(200);
    let begun = std::time::Instant::now();
    let error = CoordinationClient::new(&config).unwrap().register(&name("a"), 1).unwrap_err();
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
fn an_earlier_life_is_refused_by_kind() {
    let server = serve();
    let mut agent = client(&server);
    let earlier = agent.register(&name("a"), 1).unwrap().member;
    agent.register(&name("a"), 2).unwrap();
    match agent.heartbeat(&earlier) {
        Err(CoordinationError::Refused(refusal)) => {
            assert_eq!(refusal.kind, RefusalKind::EarlierSession);
        }
        other => panic!("{other:?}"),
    }
}
