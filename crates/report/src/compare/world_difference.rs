//! In what the worlds of several runs differ.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use homeostat_simulate::{FinishedSimulation, TraceFiles};

use super::opened::TrainingRun;
use super::simulator_settings::SimulatorSettings;

/// A setting of the world that is not the same in all runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorldDifference {
    /// The setting.
    pub setting: String,
    /// Its value in each run, in their order.
    pub values: Vec<String>,
}

/// What a run says of its world.
type World = BTreeMap<String, String>;

/// What a setting is called that a run does not have.
const ABSENT: &str = "not set";

impl WorldDifference {
    pub(super) fn of_simulations(runs: &[&FinishedSimulation]) -> Vec<Self> {
        let world = |run: &&FinishedSimulation| {
            let facts = &run.facts;
            let files = facts.trace.iter().flat_map(TraceFiles::flags);
            let trace: Vec<String> = files.map(|(_, path)| path.display().to_string()).collect();
            let mut world = settings(&run.path);
            for (key, value) in [
                ("scenario", facts.scenario.clone()),
                ("load", facts.load.clone()),
                ("trace", trace.join(" ")),
                ("functions", facts.functions.to_string()),
                ("duration_s", facts.duration_s.to_string()),
                ("window_s", facts.window_s.to_string()),
            ] {
                world.insert(key.to_owned(), value);
            }
            world
        };
        Self::between(&runs.iter().map(world).collect::<Vec<_>>())
    }

    pub(super) fn of_trainings(runs: &[&TrainingRun]) -> Vec<Self> {
        let world = |run: &&TrainingRun| {
            let mut world = settings(&run.path);
            world.insert("env".to_owned(), run.env.clone());
            world
        };
        Self::between(&runs.iter().map(world).collect::<Vec<_>>())
    }

    fn between(worlds: &[World]) -> Vec<Self> {
        let mut keys: Vec<&String> = worlds.iter().flat_map(World::keys).collect();
        keys.sort();
        keys.dedup();
        let values = |key: &String| -> Vec<String> {
            let value = |world: &World| world.get(key).map_or(ABSENT, String::as_str).to_owned();
            worlds.iter().map(value).collect()
        };
        // What run.json and config.toml both say is said once.
        let is_said = |key: &String| {
            let short = key.split_once('.');
            short.is_some_and(|(_, short)| {
                worlds
                    .iter()
                    .all(|world| world.get(short).is_some() && world.get(short) == world.get(key))
            })
        };
        keys.into_iter()
            .filter(|key| !is_said(key))
            .map(|key| Self { setting: key.clone(), values: values(key) })
            .filter(|difference| {
                difference.values.iter().any(|value| *value != difference.values[0])
            })
            .collect()
    }
}

impl fmt::Display for WorldDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.setting, self.values.join(", "))
    }
}

/// The settings of the simulator in `config.toml`: those of learners and of the run itself may
/// differ.
fn settings(run: &Path) -> World {
    let SimulatorSettings { prefix, section } = SimulatorSettings::of_run(run);
    section.iter().map(|(key, value)| (format!("{prefix}.{key}"), plain(value))).collect()
}

fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
