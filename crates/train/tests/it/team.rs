//! An agent of a team, on the platform of a coordinator in the same process.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use homeostat_env::Action;
use homeostat_lab::{Assignment, Environments, Error, RunConfig, Settings, UserLayers};
use homeostat_rl::Policy;
use homeostat_simppo::{
    AgentName, Change, Coordination, CoordinationError, Coordinator, CoordinatorConfig, Member,
    Membership, Participant, ParticipantConfig, Registration, SeatObservation, StepOutcome,
};
use homeostat_train::team::{AgentEvent, AgentPlan, AgentWatcher, CoordinatorDirectory, TeamAgent};
use serde_json::Value;

/// A coordinator that two sides hold, and that is unplugged for a while after some steps.
#[derive(Clone)]
struct Line {
    coordinator: Arc<Mutex<Coordinator>>,
    cut_after: u64,
    cut_at: Arc<Mutex<Option<Instant>>>,
}

/// How long it is unplugged.
const OUTAGE: Duration = Duration::from_millis(80);

/// A coordinator that hosts three functions. Agents that come back try again every ten
/// milliseconds.
fn coordinator() -> Coordinator {
    let run = config("faas/fleet-v3");
    let env = run.env_factory.make_multi_agent(&run.env).unwrap();
    let heartbeat = Duration::from_millis(20);
    let config = CoordinatorConfig { heartbeat, ..CoordinatorConfig::default() };
    config.build(env, &run.env_factory.tasks(&run.env).unwrap()).unwrap()
}

impl Line {
    fn new() -> Self {
        Self {
            coordinator: Arc::new(Mutex::new(coordinator())),
            cut_after: u64::MAX,
            cut_at: Arc::default(),
        }
    }

    fn pass<T>(
        &self,
        call: impl FnOnce(&mut Coordinator) -> Result<T, CoordinationError>,
    ) -> Result<T, CoordinationError> {
        let mut coordinator = self.coordinator.lock().unwrap();
        let mut cut_at = self.cut_at.lock().unwrap();
        if coordinator.status().accepted >= self.cut_after {
            let since = cut_at.get_or_insert_with(Instant::now);
            if since.elapsed() < OUTAGE {
                return Err(CoordinationError::Away { reason: "unplugged".to_owned() });
            }
        }
        call(&mut coordinator)
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
            Ok(coordinator.outcome(member, step)?.expect("one agent acts"))
        })
    }
    fn deregister(&mut self, member: &Member) -> Result<(), CoordinationError> {
        self.pass(|coordinator| coordinator.deregister(member))
    }
}

#[derive(Default)]
struct Notes {
    resumed: Option<u64>,
    changes: Vec<Change>,
}

impl AgentWatcher for Notes {
    fn event(&mut self, event: &AgentEvent<'_>) {
        match event {
            AgentEvent::Resumed { step } => self.resumed = Some(*step),
            AgentEvent::Coordination(change) => self.changes.push((*change).clone()),
            AgentEvent::PassedOver(_) | AgentEvent::Seated(_) | AgentEvent::Status(_) => {}
        }
    }
    fn wants_to_stop(&self) -> bool {
        false
    }
}

fn config(env: &str) -> RunConfig {
    let flag = |key: &str, value: &str| Assignment::set(key, value);
    let flags = vec![
        flag("run.env", env),
        flag("run.preset", "simppo"),
        flag("run.seed", "3"),
        flag("faas.functions", "3"),
    ];
    Settings::resolve(&Environments::builtin(), &UserLayers::of_flags(flags))
        .unwrap()
        .validate()
        .unwrap()
}

fn name() -> AgentName {
    AgentName::new("a").unwrap()
}

/// Runs the agent of a directory up to a step.
fn run(directory: &Path, line: &Line, steps: u64) -> (Value, Notes) {
    let mut notes = Notes::default();
    let agent = TeamAgent::open(config("faas/fleet-v3"), &name(), directory, &mut notes).unwrap();
    let participant = Participant::new(ParticipantConfig {
        name: name(),
        registration: Registration { incarnation: steps, function: None },
        first_retry: Duration::from_millis(20),
        deadline: Duration::from_secs(5),
    });
    let plan = AgentPlan {
        steps: Some(steps),
        checkpoint_every: Duration::from_secs(3600),
        report_every: Duration::from_secs(3600),
    };
    let summary = agent.run(&mut line.clone(), participant, &plan, &mut notes).unwrap();
    (summary, notes)
}

#[test]
fn an_agent_that_was_stopped_goes_on_with_its_weights_bit_for_bit() {
    let place = tempfile::tempdir().unwrap();
    let [whole, parts] = ["whole", "parts"].map(|name| place.path().join(name));
    let (summary, _) = run(&whole, &Line::new(), 170);
    assert_eq!((&summary["steps"], &summary["updates"]), (&170.into(), &3.into()));
    let line = Line::new();
    run(&parts, &line, 65);
    let (_, notes) = run(&parts, &line, 170);
    assert_eq!(notes.resumed, Some(65));
    let policy = |run: &Path| std::fs::read(run.join("policies/agent-0.policy")).unwrap();
    assert!(policy(&whole) == policy(&parts), "the policies differ");
    // The file says where it comes from.
    let policy = Policy::from_bytes(&policy(&whole)).unwrap();
    let run = policy.provenance().run.as_ref().unwrap();
    assert_eq!((run.seed, run.steps), (3, 170));
    assert_eq!(run.settings["faas.functions"], "3");
}

#[test]
fn while_the_coordinator_is_away_the_agent_waits_and_then_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let line = Line { cut_after: 60, ..Line::new() };
    let (summary, notes) = run(&place.path().join("run"), &line, 150);
    let [Change::Joined, Change::WentAway { .. }, Change::Rejoined { lost, away }] =
        notes.changes.as_slice()
    else {
        panic!("{:?}", notes.changes);
    };
    assert!(*away >= OUTAGE, "{away:?}");
    // The action on its way was lost, and nothing else.
    assert_eq!((*lost, &summary["lost"], &summary["steps"]), (1, &1.into(), &150.into()));
    let status = line.coordinator.lock().unwrap().status();
    assert_eq!((status.step, status.missed), (150, 0), "the platform stood still");
}

#[test]
fn the_directory_of_another_agent_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    run(&directory, &Line::new(), 5);
    let open = |env: &str, name: &str| {
        let name = AgentName::new(name).unwrap();
        TeamAgent::open(config(env), &name, &directory, &mut Notes::default()).err().unwrap()
    };
    let renamed = open("faas/fleet-v3", "b").to_string();
    assert!(
        renamed.contains("the agent's name was a when the run began and is b now"),
        "{renamed}"
    );
    let moved = open("faas/fleet-set-points-v1", "a");
    assert!(matches!(moved, Error::SettingChanged { .. }), "{moved}");
}

#[test]
fn the_platform_of_another_environment_is_refused_with_the_way_out() {
    let place = tempfile::tempdir().unwrap();
    let env = "faas/fleet-set-points-v1";
    let mut notes = Notes::default();
    let agent = TeamAgent::open(config(env), &name(), place.path(), &mut notes).unwrap();
    let participant = Participant::new(ParticipantConfig {
        name: name(),
        registration: Registration::default(),
        first_retry: Duration::from_millis(20),
        deadline: Duration::from_secs(5),
    });
    let hour = Duration::from_secs(3600);
    let plan = AgentPlan { steps: Some(5), checkpoint_every: hour, report_every: hour };
    let error = agent.run(&mut Line::new(), participant, &plan, &mut notes).unwrap_err();
    assert!(error.to_string().contains("give it --env faas/fleet-v3"), "{error}");
}

#[test]
fn a_coordinator_is_saved_whole_and_refused_if_damaged() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    let mut first = coordinator();
    let member = first.register(&name(), &Registration::default()).unwrap().member;
    first.submit(&member, 0, &Action::Discrete(1)).unwrap();
    let directory = CoordinatorDirectory::open(&path).unwrap();
    assert!(!directory.restore(&mut coordinator()).unwrap());
    directory.write(CoordinatorDirectory::state_of(&first)).unwrap();
    assert!(matches!(CoordinatorDirectory::open(&path), Err(Error::RunLocked { .. })));
    let mut restored = coordinator();
    assert!(directory.restore(&mut restored).unwrap());
    assert_eq!((restored.agents().count(), restored.status().step), (1, 1));
    assert_eq!(restored.observe(&member).unwrap(), first.observe(&member).unwrap());
    let file = path.join("coordinator.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() - 9;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let error = directory.restore(&mut coordinator()).unwrap_err().to_string();
    assert!(error.contains("without the file, the coordinator starts afresh"), "{error}");
}
