//! Agents and coordinators for the tests.

use std::time::Duration;

use homeostat_simppo::{
    AgentName, Coordination, CoordinationError, Coordinator, CoordinatorConfig, Guidance, Member,
    Refusal, RefusalKind, Transition,
};

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// One heartbeat a second, three to a timeout.
pub(crate) fn coordinator() -> Coordinator {
    CoordinatorConfig::default().build().unwrap()
}

pub(crate) fn name(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

pub(crate) fn join(coordinator: &mut Coordinator, agent: &str, incarnation: u64) -> Member {
    coordinator.register(&name(agent), incarnation).unwrap().member
}

/// A step in a plain state, told apart by its reward.
pub(crate) fn step(sequence: u64, reward: f64) -> Transition {
    Transition { sequence, state: vec![0.5; 7], action: 1, reward }
}

pub(crate) fn observe(
    coordinator: &mut Coordinator,
    member: &Member,
    transition: &Transition,
) -> Guidance {
    coordinator.observe(member, transition).unwrap()
}

pub(crate) fn refusal<T: std::fmt::Debug>(outcome: Result<T, CoordinationError>) -> RefusalKind {
    match outcome {
        Err(CoordinationError::Refused(Refusal { kind, .. })) => kind,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
