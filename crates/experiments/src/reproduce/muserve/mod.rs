//! The experiments of chapter 6 of the dissertation: on published measurements, and on a simulated cluster.

mod batching;
mod cluster;
mod fit;
mod power;
mod predictor;
mod scheduler;
mod sensitivity;

use std::path::PathBuf;

use homeostat_lab::{Error, Result};
use homeostat_report::Finding;

use crate::reproduce::refused_call;

/// How much to run, and on what.
#[derive(Debug, Clone)]
pub struct MuserveOptions {
    /// Seeds of splits and arrivals.
    pub seeds: Vec<u64>,
    /// Fewer seeds and settings: to see that it runs, not to quote.
    pub is_quick: bool,
    /// The directory with the published data, a folder per data set; unused by experiments that read none.
    pub data: PathBuf,
    /// The directory of a sentence encoder, whose embeddings `muserve/predictor` uses in a second column.
    pub encoder: Option<PathBuf>,
}

impl MuserveOptions {
    /// Ten seeds, or five for a quick run.
    pub fn new(is_quick: bool, data: PathBuf) -> Self {
        Self {
            seeds: if is_quick { (1..=5).collect() } else { (1..=10).collect() },
            is_quick,
            data,
            encoder: None,
        }
    }
}

type Experiment = fn(&MuserveOptions, &(dyn Fn(&str) + Sync)) -> Result<Finding>;

const EXPERIMENTS: [(&str, &str, Experiment); 6] = [
    (
        "muserve/scheduler",
        "completion times in order of predicted length, with and without ageing",
        scheduler::scheduler,
    ),
    (
        "muserve/predictor",
        "lengths of answers to unseen prompts and of unseen models",
        predictor::predictor,
    ),
    (
        "muserve/fit",
        "the simulated devices against measured times and power, and against a test bed",
        fit::fit,
    ),
    (
        "muserve/power",
        "power at equal attainment: AlpaServe, AlpaServe with MIAD, and power-aware placement",
        power::power,
    ),
    (
        "muserve/sensitivity",
        "clocks against the load, and savings against insensitive operators and lengths of answers",
        sensitivity::sensitivity,
    ),
    (
        "muserve/batching",
        "orders of requests with no, dynamic and continuous batching",
        batching::batching,
    ),
];

/// The experiments that simulate a cluster and read no published data.
const WITHOUT_DATA: [&str; 2] = ["muserve/power", "muserve/sensitivity"];

/// The names of all experiments with what they ask.
pub fn muserve_experiments() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXPERIMENTS.into_iter().map(|(name, asks, _)| (name, asks))
}

/// Whether an experiment reads published data.
pub fn muserve_reads_data(name: &str) -> bool {
    !WITHOUT_DATA.contains(&name)
}

/// Runs one experiment by name, one of [`muserve_experiments`]; `progress` is called with what is
/// being done.
pub fn run_muserve(
    name: &str,
    options: &MuserveOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let found = EXPERIMENTS.iter().find(|(known, _, _)| *known == name);
    let Some((name, asks, experiment)) = found else {
        let names: Vec<&str> = muserve_experiments().map(|(name, _)| name).collect();
        let expected = format!("there are {}", names.join(", "));
        return Err(refused_call("experiment", name, expected));
    };
    if let Some(encoder) = options.encoder.as_ref().filter(|_| *name != "muserve/predictor") {
        let expected = "only muserve/predictor reads an encoder";
        return Err(refused_call("encoder", &encoder.display().to_string(), expected));
    }
    if options.seeds.is_empty() {
        return Err(refused_call("seeds", "none", "at least one seed is needed"));
    }
    let mut finding = experiment(options, progress)?;
    finding.name = (*name).to_owned();
    finding.title = (*asks).to_owned();
    finding.seeds.clone_from(&options.seeds);
    finding.is_quick = options.is_quick;
    Ok(finding)
}

/// A scenario that the planner refuses.
fn refused_by_planner(error: homeostat_placement::Error) -> Error {
    homeostat_decide::Error::plant(error).into()
}

/// A deployment that the simulator refuses.
fn refused_by_simulator(error: homeostat_sim_gpu::Error) -> Error {
    homeostat_decide::Error::from(error).into()
}
