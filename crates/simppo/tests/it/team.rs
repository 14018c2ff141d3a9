//! Agents and coordinators for the tests.

use std::time::Duration;

use homeostat_env::{Action, Task};
use homeostat_simppo::{
    AgentName, CoordinationError, Coordinator, CoordinatorConfig, Member, Refusal, RefusalKind,
    Registration, StepOutcome, TaskType,
};

use crate::stage::{Actor, Stage};

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A platform with so many seats, whose agents earn 1, 2, 3 ... in a step; the functions are `cpu`,
/// `memory`, `io`, `cpu` ...
pub(crate) fn stage(seats: usize) -> Stage {
    let actor = |(number, kind): (usize, TaskType)| Actor {
        number: number as u32,
        kind,
        reward: number as f64 + 1.0,
    };
    let kinds = TaskType::ALL.into_iter().cycle().take(seats).enumerate();
    Stage::of(&kinds.map(actor).collect::<Vec<_>>())
}

pub(crate) fn tasks() -> Vec<Task> {
    let task = |task_type: TaskType| Task { name: task_type.name().to_owned(), task_type };
    TaskType::ALL.into_iter().map(task).collect()
}

pub(crate) fn hosting(config: CoordinatorConfig, stage: &Stage) -> Coordinator {
    config.build(Box::new(stage.clone()), &tasks()).unwrap()
}

/// Three seats, one heartbeat a second, three to a timeout, half a second for a step.
pub(crate) fn config() -> CoordinatorConfig {
    CoordinatorConfig { step_deadline: ms(500), ..CoordinatorConfig::default() }
}

pub(crate) fn coordinator() -> Coordinator {
    hosting(config(), &stage(3))
}

pub(crate) fn name(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

pub(crate) fn life(incarnation: u64) -> Registration {
    Registration { incarnation, function: None }
}

pub(crate) fn join(coordinator: &mut Coordinator, agent: &str, incarnation: u64) -> Member {
    coordinator.register(&name(agent), &life(incarnation)).unwrap().member
}

pub(crate) const HOLD: Action = Action::Discrete(0);
pub(crate) const MORE_CPU: Action = Action::Discrete(1);

/// Submits an action for the step that comes next.
pub(crate) fn submit(coordinator: &mut Coordinator, member: &Member) {
    let step = coordinator.status().step;
    coordinator.submit(member, step, &MORE_CPU).unwrap();
}

/// The outcome of the step that was played last.
pub(crate) fn outcome(coordinator: &mut Coordinator, member: &Member) -> StepOutcome {
    let step = coordinator.status().step - 1;
    coordinator.outcome(member, step).unwrap().unwrap()
}

pub(crate) fn refusal<T: std::fmt::Debug>(outcome: Result<T, CoordinationError>) -> RefusalKind {
    match outcome {
        Err(CoordinationError::Refused(Refusal { kind, .. })) => kind,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
