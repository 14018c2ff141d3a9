//! Stores and transitions for tests.

use std::path::PathBuf;

use homeostat_core::{ActionField, ActionSchema, ControlSchema, FeatureField, FeatureSchema};
use homeostat_trajectories::{End, Origin, TrajectoryId, TrajectoryStore, Transition};
use tempfile::TempDir;

/// A directory that is gone after the test.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn store(&self) -> TrajectoryStore {
        TrajectoryStore::open_or_create(&self.path("store.db")).unwrap()
    }
}

pub(crate) fn schema(features: usize) -> ControlSchema {
    let feature = |number| FeatureField::new(&format!("f{number}"), "a number", (0.0, 1.0));
    let step = ActionField::choice("step", "what changes", ["hold", "more"].map(str::to_owned));
    ControlSchema {
        features: FeatureSchema {
            id: format!("test/{features}-features-v1"),
            features: (0..features).map(feature).collect(),
            history: 1,
        },
        action: ActionSchema { id: "test/steps-v1".to_owned(), parts: vec![step] },
        bounds: Vec::new(),
    }
}

pub(crate) fn origin(workload: &str, policy: &str) -> Origin {
    Origin {
        workload: workload.to_owned(),
        policy: policy.to_owned(),
        schema: schema(2),
        recorded_ms: 1000,
    }
}

pub(crate) fn transition(at_ms: i64, reward: f64) -> Transition {
    Transition {
        at_ms,
        observation: vec![0.1 * at_ms as f32, 0.25],
        action: vec![1.0],
        reward,
        probability: Some(0.5),
    }
}

/// Stores an ended trajectory with these rewards.
pub(crate) fn record(
    store: &mut TrajectoryStore,
    origin: &Origin,
    rewards: &[f64],
) -> TrajectoryId {
    let mut writer = store.write().unwrap();
    let id = writer.begin(origin).unwrap();
    for (step, reward) in rewards.iter().enumerate() {
        writer.append(id, &transition(step as i64, *reward)).unwrap();
    }
    writer.end(id, End::Truncated, &[0.5, 0.5]).unwrap();
    writer.commit().unwrap();
    id
}

pub(crate) fn transitions(store: &TrajectoryStore, id: TrajectoryId) -> Vec<Transition> {
    let mut found = Vec::new();
    let mut keep = |transition| {
        found.push(transition);
        Ok(())
    };
    store.transitions(id, &mut keep).unwrap();
    found
}
