//! Run directories of either kind, read and checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use homeostat_lab::{Error, Result, RunDirectory};
use homeostat_simulate::FinishedSimulation;
use serde_json::Value;

/// A finished run.
#[derive(Debug, Clone)]
pub enum OpenedRun {
    /// Of `homeostat sim`.
    Simulation(Box<FinishedSimulation>),
    /// Of `homeostat train`.
    Training(TrainingRun),
}

/// A finished training.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingRun {
    /// Its directory.
    pub path: PathBuf,
    /// Version of the program.
    pub homeostat: String,
    /// What learnt.
    pub algorithm: String,
    /// Where.
    pub env: String,
    /// From which seed.
    pub seed: u64,
    /// `finished`, `interrupted` or `agents stopped`.
    pub status: String,
    /// Steps of each agent.
    pub steps: u64,
    /// Each agent's mean return of its last hundred episodes.
    pub returns: Vec<f64>,
}

impl OpenedRun {
    /// Reads a directory. What is broken or unfinished is refused with the name of the file.
    pub fn open(path: &Path) -> Result<Self> {
        let directory = RunDirectory::open(path)?;
        let facts = read_json(&directory, "run.json")?;
        let config = directory.read("config.toml")?;
        let config: Result<toml::Table, String> = std::str::from_utf8(&config)
            .map_err(|error| error.to_string())
            .and_then(|text| text.parse().map_err(|error: toml::de::Error| error.to_string()));
        config.map_err(|reason| unusable(path, "config.toml", &reason))?;
        if facts.get("kind").is_some() {
            let run = FinishedSimulation::open(path)?;
            if run.outcomes.is_empty() {
                return Err(unusable(path, "summary.json", "it has no seeds"));
            }
            return Ok(Self::Simulation(Box::new(run)));
        }
        Ok(Self::Training(TrainingRun::read(&directory, &facts)?))
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        match self {
            Self::Simulation(run) => &run.path,
            Self::Training(run) => &run.path,
        }
    }

    /// The simulation, if it is one.
    pub fn simulation(&self) -> Option<&FinishedSimulation> {
        if let Self::Simulation(run) = self { Some(run) } else { None }
    }

    /// The training, if it is one.
    pub fn training(&self) -> Option<&TrainingRun> {
        if let Self::Training(run) = self { Some(run) } else { None }
    }
}

impl TrainingRun {
    fn read(directory: &RunDirectory, facts: &Value) -> Result<Self> {
        let path = directory.path();
        if !directory.file("summary.json").is_file() {
            let reason = format!(
                "it has no summary.json: the training is still running or was interrupted; resume it with homeostat train --resume {}",
                path.display()
            );
            return Err(Error::NotARun { path: path.to_owned(), reason });
        }
        let summary = read_json(directory, "summary.json")?;
        let word = |name: &str, from: &Value, key: &str| {
            let word = from.get(key).and_then(Value::as_str).map(str::to_owned);
            word.ok_or_else(|| unusable(path, name, &format!("it has no text `{key}`")))
        };
        let returns = last_returns(directory)?;
        if returns.is_empty() {
            return Err(unusable(path, "metrics.jsonl", "no agent has finished an episode"));
        }
        Ok(Self {
            path: path.to_owned(),
            homeostat: word("run.json", facts, "homeostat")?,
            algorithm: word("run.json", facts, "algorithm")?,
            env: word("run.json", facts, "env")?,
            seed: facts["seed"].as_u64().unwrap_or_default(),
            status: word("summary.json", &summary, "status")?,
            steps: summary["steps"].as_u64().unwrap_or_default(),
            returns,
        })
    }
}

/// The last figure of each agent, in their order.
fn last_returns(directory: &RunDirectory) -> Result<Vec<f64>> {
    let metrics = directory.read("metrics.jsonl")?;
    let mut last: BTreeMap<u64, f64> = BTreeMap::new();
    for (number, line) in String::from_utf8_lossy(&metrics).lines().enumerate() {
        let line: Value = serde_json::from_str(line).map_err(|error| {
            let reason = format!("line {}: {error}", number + 1);
            unusable(directory.path(), "metrics.jsonl", &reason)
        })?;
        if let (Some(agent), Some(value)) = (line["agent"].as_u64(), line["return_recent"].as_f64())
        {
            last.insert(agent, value);
        }
    }
    Ok(last.into_values().collect())
}

fn read_json(directory: &RunDirectory, name: &str) -> Result<Value> {
    serde_json::from_slice(&directory.read(name)?)
        .map_err(|error| unusable(directory.path(), name, &error.to_string()))
}

pub(crate) fn unusable(path: &Path, name: &str, reason: &str) -> Error {
    Error::NotARun { path: path.to_owned(), reason: format!("its {name} cannot be used: {reason}") }
}
