//! An agent of a team, over a coordinator in the same process.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use homeostat_lab::{Assignment, Environments, Error, RunConfig, Settings, UserLayers};
use homeostat_simppo::{
    AgentName, Change, Coordination, CoordinationError, Coordinator, CoordinatorConfig, Guidance,
    Member, Membership, Participant, Transition,
};
use homeostat_train::team::{
    AgentEvent, AgentPlan, AgentWatcher, CoordinatorFolder, Link, TeamAgent,
};
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

impl Line {
    fn new() -> Self {
        // Agents that come back try again every ten milliseconds.
        let heartbeat = Duration::from_millis(20);
        let config = CoordinatorConfig { heartbeat, ..CoordinatorConfig::default() };
        let coordinator = config.build().unwrap();
        Self {
            coordinator: Arc::new(Mutex::new(coordinator)),
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
        if coordinator.standing().accepted >= self.cut_after {
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
            AgentEvent::PassedOver(_) | AgentEvent::Status(_) => {}
        }
    }
    fn wants_to_stop(&self) -> bool {
        false
    }
}

fn config(env: &str) -> RunConfig {
    let flag = |key: &str, value: &str| Assignment::set(key, value);
    let flags = vec![flag("run.env", env), flag("run.preset", "simppo"), flag("run.seed", "3")];
    Settings::resolve(&Environments::builtin(), &UserLayers::of_flags(flags))
        .unwrap()
        .validate()
        .unwrap()
}

fn name() -> AgentName {
    AgentName::new("a").unwrap()
}

/// Runs the agent of a folder up to a step.
fn run(folder: &Path, line: &Line, steps: u64, pace: Duration) -> (Value, Notes) {
    let mut notes = Notes::default();
    let agent = TeamAgent::open(config("faas/function-v2"), &name(), folder, &mut notes).unwrap();
    let participant = Participant::new(name(), steps, Duration::from_millis(20));
    let link = Link::start(Box::new(line.clone()), participant, Duration::from_secs(30)).unwrap();
    let plan = AgentPlan {
        pace,
        steps: Some(steps),
        checkpoint_every: Duration::from_secs(3600),
        report_every: Duration::from_secs(3600),
    };
    let summary = agent.run(link, &plan, &mut notes).unwrap();
    (summary, notes)
}

#[test]
fn an_agent_that_was_stopped_goes_on_with_its_weights_bit_for_bit() {
    let place = tempfile::tempdir().unwrap();
    let [whole, parts] = ["whole", "parts"].map(|name| place.path().join(name));
    let (summary, _) = run(&whole, &Line::new(), 170, Duration::ZERO);
    assert_eq!((&summary["learned"], &summary["updates"]), (&170.into(), &3.into()));
    let line = Line::new();
    run(&parts, &line, 65, Duration::ZERO);
    let (_, notes) = run(&parts, &line, 170, Duration::ZERO);
    assert_eq!(notes.resumed, Some(65));
    let policy = |folder: &Path| std::fs::read(folder.join("policies/agent-0.policy")).unwrap();
    assert!(policy(&whole) == policy(&parts), "the policies differ");
}

#[test]
fn while_the_coordinator_is_away_the_agent_decides_and_does_not_learn() {
    let place = tempfile::tempdir().unwrap();
    let line = Line { cut_after: 60, ..Line::new() };
    let (summary, notes) = run(&place.path().join("run"), &line, 150, Duration::from_millis(2));
    let [Change::Joined, Change::WentAway { .. }, Change::Rejoined { undelivered, .. }] =
        notes.changes.as_slice()
    else {
        panic!("{:?}", notes.changes);
    };
    assert!(*undelivered >= 1, "{undelivered}");
    assert_eq!(summary["undelivered"], *undelivered);
    assert_eq!(summary["steps"], 150);
    let delivered = summary["delivered"].as_u64().unwrap();
    assert_eq!(delivered + undelivered, 150);
    // Of the steps around the outage one was learnt from on the way out, and none on the way in:
    // the first that brought guidance back, and possibly one before it, which arrived while the
    // agent did not wait for the answer.
    let learned = summary["learned"].as_u64().unwrap();
    assert!(learned == delivered || learned + 1 == delivered, "{learned} of {delivered}");
    assert_eq!(line.coordinator.lock().unwrap().standing().missed, *undelivered);
}

#[test]
fn the_folder_of_another_agent_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    run(&folder, &Line::new(), 5, Duration::ZERO);
    let open = |env: &str, name: &str| {
        let name = AgentName::new(name).unwrap();
        TeamAgent::open(config(env), &name, &folder, &mut Notes::default()).err().unwrap()
    };
    let renamed = open("faas/function-v2", "b").to_string();
    assert!(
        renamed.contains("the agent's name was a when the run began and is b now"),
        "{renamed}"
    );
    let moved = open("faas/shared-v2", "a");
    assert!(matches!(moved, Error::SettingChanged { .. }), "{moved}");
}

#[test]
fn a_coordinator_is_saved_whole_and_refused_if_damaged() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("state");
    let fresh = || CoordinatorConfig::default().build().unwrap();
    let mut coordinator = fresh();
    coordinator.register(&name(), 1).unwrap();
    let folder = CoordinatorFolder::open(&path).unwrap();
    assert!(!folder.restore(&mut fresh()).unwrap());
    folder.save(&coordinator).unwrap();
    assert!(matches!(CoordinatorFolder::open(&path), Err(Error::RunLocked { .. })));
    let mut restored = fresh();
    assert!(folder.restore(&mut restored).unwrap());
    assert_eq!(restored.agents().count(), 1);
    let file = path.join("coordinator.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() - 9;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let error = folder.restore(&mut fresh()).unwrap_err().to_string();
    assert!(error.contains("without the file, the coordinator starts afresh"), "{error}");
}
