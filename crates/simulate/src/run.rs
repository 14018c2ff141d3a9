//! A simulation on disk: what was played, every window of the first seed, and the figures of
//! all seeds.
//!
//! ```text
//! config.toml      the settings of the simulated system
//! run.json         policy, scenario, seeds, duration: enough to play it again
//! windows.jsonl    one line per window and function of the first seed; packed as windows.jsonl.gz
//!                  from 100 000 lines on
//! summary.json     the figures of every seed, when all are done
//! decisions.jsonl  every decision of every seed, if asked for, to learn from
//! ```

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use homeostat_lab::{
    Error, FormerPercentage, Result, RunDirectory, Summary as Spread, file_error,
    with_former_percentages, without_former_percentages,
};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::engine::{Scenario, Simulation, WindowRecord};
use super::outcome::SimulationOutcome;
use super::recorder::DecisionRecorder;
use super::trace::TraceFiles;
use super::windows_file::{WindowsWriter, windows_file_name};

/// What a simulation was, for people and for playing it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimulationFacts {
    /// Always "simulation".
    pub kind: String,
    /// Version of this program.
    pub homeostat: String,
    /// The policy that controlled the functions.
    pub policy: String,
    /// The file or run directory of a policy that was learnt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_file: Option<PathBuf>,
    /// `together`, `alone` or `trace`.
    pub scenario: String,
    /// Files of the trace, if there was one.
    pub trace: Option<TraceFiles>,
    /// Nodes of the cluster that a trace was played on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// The SLO of each function of a trace over its mean run time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo_over_mean: Option<f64>,
    /// The name of the load.
    pub load: String,
    /// Functions.
    pub functions: usize,
    /// Mean CPU demand over cores, where it is known.
    pub mean_load: Option<f64>,
    /// Simulated seconds.
    pub duration_s: f64,
    /// Length of a window in seconds.
    pub window_s: f64,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Whether every decision is in `decisions.jsonl`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
}

/// The percentages of summaries of 0.1.0.
const FORMER_SUMMARY: [FormerPercentage; 1] =
    [FormerPercentage { new: "slo_violation_ratio", old: "miss_pct" }];

/// The decisions of a run that was asked to record them.
const DECISIONS: &str = "decisions.jsonl";

/// The word in `run.json`.
const KIND: &str = "simulation";

/// A finished simulation, as it was written.
#[derive(Debug, Clone)]
pub struct FinishedSimulation {
    /// Its directory.
    pub path: PathBuf,
    /// What it was.
    pub facts: SimulationFacts,
    /// Each seed's figures.
    pub outcomes: Vec<SimulationOutcome>,
}

#[derive(Serialize, Deserialize)]
struct Summary {
    policy: String,
    outcomes: Vec<SimulationOutcome>,
}

/// Plays every seed, several at once, and writes the directory. `progress` is called with how many of all
/// windows are done, from any thread; once `stop` is set, the run ends with an error.
pub fn run_simulation(
    simulation: &Simulation,
    facts: &SimulationFacts,
    config_toml: &str,
    path: &Path,
    progress: &(dyn Fn(u64, u64) + Sync),
    stop: &AtomicBool,
) -> Result<FinishedSimulation> {
    let directory = RunDirectory::create_plain(path)?;
    directory.write("config.toml", config_toml.as_bytes())?;
    directory.write("run.json", pretty(facts).as_bytes())?;
    let lines = simulation.windows() * facts.functions as u64;
    let windows_path = directory.file(windows_file_name(lines));
    let writer =
        WindowsWriter::create(&windows_path).map_err(file_error("create", &windows_path))?;
    let writer = Mutex::new(writer);
    let total = lines * facts.seeds.len() as u64;
    let done = AtomicU64::new(0);
    let outcomes = facts.seeds.par_iter().enumerate().map(|(place, seed)| {
        let mut recorder = facts.recorded.then(|| DecisionRecorder::new(&facts.policy));
        let outcome = simulation.run(*seed, &mut |record: WindowRecord<'_>| {
            if let Some(recorder) = &mut recorder {
                recorder.take_in(&record);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            if place == 0 {
                let mut writer = writer.lock().expect("no writer panics");
                writer.line(&line_of(&record)).map_err(file_error("write", &windows_path))?;
            }
            Ok(())
        })?;
        Ok((outcome, recorder))
    });
    let played: Vec<(SimulationOutcome, Option<DecisionRecorder>)> =
        outcomes.collect::<Result<_>>()?;
    let (outcomes, recorders): (Vec<_>, Vec<_>) = played.into_iter().unzip();
    if facts.recorded {
        let path = directory.file(DECISIONS);
        let file = File::create(&path).map_err(file_error("create", &path))?;
        let mut writer = BufWriter::new(file);
        let written = recorders.into_iter().flatten().try_for_each(|one| one.write(&mut writer));
        written.and_then(|()| writer.flush()).map_err(file_error("write", &path))?;
    }
    let writer = writer.into_inner().expect("no writer panics");
    writer.finish().map_err(file_error("write", &windows_path))?;
    let summary = Summary { policy: facts.policy.clone(), outcomes };
    let record = with_former_percentages(json!(summary), &FORMER_SUMMARY);
    directory.write("summary.json", pretty(&record).as_bytes())?;
    Ok(FinishedSimulation {
        path: path.to_owned(),
        facts: facts.clone(),
        outcomes: summary.outcomes,
    })
}

impl FinishedSimulation {
    /// Means over seeds, with the interval of the SLO violations: a record for people and programs.
    pub fn summary(&self) -> serde_json::Value {
        let over = |figure: &dyn Fn(&SimulationOutcome) -> f64| {
            let values: Vec<f64> = self.outcomes.iter().map(figure).collect();
            Spread::of(&values).expect("a simulation has a seed")
        };
        let mean = |figure: &dyn Fn(&SimulationOutcome) -> f64| over(figure).mean;
        let violations = over(&|outcome| outcome.total.slo_violation_ratio);
        json!({
            "policy": self.facts.policy,
            "seeds": self.outcomes.len(),
            "requests": mean(&|outcome| outcome.total.requests as f64).round(),
            "slo_violation_ratio": violations.mean,
            "slo_violation_ratio_interval": violations.interval(),
            "p99_over_slo": mean(&|outcome| outcome.total.p99_over_slo),
            "preservation": mean(&|outcome| outcome.total.preservation),
            "cpu_utilisation": mean(&|outcome| outcome.total.cpu_utilisation),
            "memory_utilisation": mean(&|outcome| outcome.total.memory_utilisation),
            "node_use": mean(&|outcome| outcome.node_use),
            "container_s": mean(&|outcome| outcome.total.container_s),
            "memory_gib_s": mean(&|outcome| outcome.total.memory_gib_s),
            "cold_starts": mean(&|outcome| outcome.total.cold_starts as f64),
            "ungranted": self.outcomes.iter().map(|outcome| outcome.ungranted).sum::<u64>(),
            "functions_without_room": self.functions_without_room(),
            "refused": self.outcomes.iter().map(|outcome| outcome.refused).sum::<u64>(),
            "run": self.path.display().to_string(),
        })
    }

    /// Functions that had requests and never a container, in the seed with the most.
    pub fn functions_without_room(&self) -> usize {
        self.outcomes.iter().map(SimulationOutcome::functions_without_room).max().unwrap_or(0)
    }

    /// A simulation of one seed in which nothing happened: it shows which figures there are.
    pub fn blank() -> Self {
        let facts = SimulationFacts {
            kind: KIND.to_owned(),
            homeostat: env!("CARGO_PKG_VERSION").to_owned(),
            policy: String::new(),
            policy_file: None,
            scenario: String::new(),
            trace: None,
            nodes: None,
            slo_over_mean: None,
            load: String::new(),
            functions: 0,
            mean_load: None,
            duration_s: 0.0,
            window_s: 0.0,
            seeds: vec![0],
            recorded: false,
        };
        Self { path: PathBuf::new(), facts, outcomes: vec![SimulationOutcome::default()] }
    }

    /// Reads a directory that [`run_simulation`] wrote.
    pub fn open(path: &Path) -> Result<Self> {
        let directory = RunDirectory::open(path)?;
        let unreadable = |name: &str, reason: String| Error::NotARun {
            path: path.to_owned(),
            reason: format!("its {name} cannot be used: {reason}"),
        };
        if directory.file("metrics.jsonl").is_file() {
            return Err(Error::Unreadable {
                source_text: path.display().to_string(),
                reason: "it is a training run, not a simulation of `homeostat sim`; `homeostat eval` plays its \
                         policies"
                    .to_owned(),
            });
        }
        let facts: SimulationFacts = serde_json::from_slice(&directory.read("run.json")?)
            .map_err(|error| unreadable("run.json", error.to_string()))?;
        if facts.kind != KIND {
            let reason = format!("it is of a {}, not of a simulation of pods", facts.kind);
            return Err(unreadable("run.json", reason));
        }
        if !directory.file("summary.json").is_file() {
            let reason = "the simulation was interrupted before its end".to_owned();
            return Err(Error::NotARun { path: path.to_owned(), reason });
        }
        let summary: Summary = serde_json::from_slice(&directory.read("summary.json")?)
            .map(|summary| without_former_percentages(summary, &FORMER_SUMMARY))
            .and_then(serde_json::from_value)
            .map_err(|error| unreadable("summary.json", error.to_string()))?;
        if summary.outcomes.is_empty() || facts.seeds.is_empty() {
            return Err(unreadable("summary.json", "it has no seeds".to_owned()));
        }
        Ok(Self { path: path.to_owned(), facts, outcomes: summary.outcomes })
    }
}

impl Simulation {
    /// The facts of a run of these seeds, as `run.json` has them.
    pub fn facts(&self, trace: Option<TraceFiles>, seeds: Vec<u64>) -> SimulationFacts {
        let scenario = match self.scenario {
            _ if trace.is_some() => "trace",
            Scenario::Together => "together",
            Scenario::Alone => "alone",
        };
        let is_known = self.scenario == Scenario::Together;
        SimulationFacts {
            kind: KIND.to_owned(),
            homeostat: env!("CARGO_PKG_VERSION").to_owned(),
            policy: self.controllers.name().to_owned(),
            policy_file: self.controllers.file().map(Path::to_owned),
            scenario: scenario.to_owned(),
            trace,
            nodes: None,
            slo_over_mean: None,
            load: self.system.load(),
            functions: self.system.targets(),
            mean_load: self.system.mean_load().filter(|_| is_known),
            duration_s: self.played().seconds(),
            window_s: self.system.window().seconds(),
            seeds,
            recorded: false,
        }
    }
}

/// A window as one line of JSON.
fn line_of(record: &WindowRecord<'_>) -> serde_json::Value {
    let WindowRecord { function, name, window, decision, .. } = record;
    let obs = &window.observation;
    let reasons: Vec<String> = decision.reasons().iter().map(ToString::to_string).collect();
    json!({
        "t_s": obs.now.seconds(),
        "function": function,
        "name": name,
        "slo_ms": obs.slo.threshold().seconds() * 1e3,
        "p99_ms": obs.latency.map(|latency| latency.seconds() * 1e3),
        "arrivals_per_s": obs.arrivals_per_s,
        "waiting": obs.waiting,
        "completed": window.completed,
        "slo_violations": window.slo_violations,
        // The key of 0.1.0, for one release.
        "missed": window.slo_violations,
        "timed_out": window.timed_out,
        "failed": window.failed,
        "cold_starts": window.cold_starts,
        "oom_kills": obs.oom_kills,
        "containers": obs.allocation.replicas,
        "cpu_millicores": obs.allocation.cpu.millicores(),
        "memory_mib": obs.allocation.memory.mib(),
        "cpu_s": window.cpu_s,
        "container_s": window.container_s,
        "memory_gib_s": window.memory_gib_s,
        "decided": {
            "containers": decision.applied().replicas,
            "cpu_millicores": decision.applied().cpu.millicores(),
            "memory_mib": decision.applied().memory.mib(),
            "reasons": reasons,
        },
    })
}

pub(crate) fn pretty(value: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(value).expect("plain values");
    text + "\n"
}
