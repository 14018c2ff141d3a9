//! In which settings of the simulated system several runs differ.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use homeostat_simulate::{FinishedSimulation, TraceFiles};

use super::opened::TrainingRun;
use super::simulator_settings::SimulatorSettings;

/// A setting of the simulated system that is not the same in all runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingDifference {
    /// The setting.
    pub setting: String,
    /// Its value in each run, in their order.
    pub values: Vec<String>,
}

/// The settings of a run, by name.
type RunSettings = BTreeMap<String, String>;

/// What a setting is called that a run does not have.
const ABSENT: &str = "not set";

impl SettingDifference {
    pub(super) fn of_simulations(runs: &[&FinishedSimulation]) -> Vec<Self> {
        let of_run = |run: &&FinishedSimulation| {
            let facts = &run.facts;
            let files = facts.trace.iter().flat_map(TraceFiles::flags);
            let trace: Vec<String> = files.map(|(_, path)| path.display().to_string()).collect();
            let mut settings = settings(&run.path);
            for (key, value) in [
                ("scenario", facts.scenario.clone()),
                ("load", facts.load.clone()),
                ("trace", trace.join(" ")),
                ("functions", facts.functions.to_string()),
                ("duration_s", facts.duration_s.to_string()),
                ("window_s", facts.window_s.to_string()),
            ] {
                settings.insert(key.to_owned(), value);
            }
            if let Some(nodes) = facts.nodes {
                settings.insert("nodes".to_owned(), nodes.to_string());
            }
            if let Some(slo) = facts.slo_over_mean {
                settings.insert("slo_over_mean".to_owned(), slo.to_string());
            }
            settings
        };
        Self::between(&runs.iter().map(of_run).collect::<Vec<_>>())
    }

    pub(super) fn of_trainings(runs: &[&TrainingRun]) -> Vec<Self> {
        let of_run = |run: &&TrainingRun| {
            let mut settings = settings(&run.path);
            settings.insert("env".to_owned(), run.env.clone());
            settings
        };
        Self::between(&runs.iter().map(of_run).collect::<Vec<_>>())
    }

    fn between(runs: &[RunSettings]) -> Vec<Self> {
        let mut keys: Vec<&String> = runs.iter().flat_map(RunSettings::keys).collect();
        keys.sort();
        keys.dedup();
        let values = |key: &String| -> Vec<String> {
            let value = |run: &RunSettings| run.get(key).map_or(ABSENT, String::as_str).to_owned();
            runs.iter().map(value).collect()
        };
        // What run.json and config.toml both say is said once.
        let is_said = |key: &String| {
            let short = key.split_once('.');
            short.is_some_and(|(_, short)| {
                runs.iter().all(|run| run.get(short).is_some() && run.get(short) == run.get(key))
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

impl fmt::Display for SettingDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}", self.setting, self.values.join(", "))
    }
}

/// The settings of the simulator in `config.toml`: those of learners and of the run itself may
/// differ.
fn settings(run: &Path) -> RunSettings {
    let SimulatorSettings { prefix, section } = SimulatorSettings::of_run(run);
    section.iter().map(|(key, value)| (format!("{prefix}.{key}"), plain(value))).collect()
}

fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
