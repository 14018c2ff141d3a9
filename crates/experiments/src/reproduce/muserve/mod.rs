//! The experiments of chapter 6 of the dissertation, on published measurements.

mod fit;
mod predictor;
mod scheduler;

use std::path::PathBuf;

use homeostat_lab::{Error, Result};
use homeostat_report::Finding;

/// How much to run, and on what.
#[derive(Debug, Clone)]
pub struct MuserveOptions {
    /// Seeds of splits and arrivals.
    pub seeds: Vec<u64>,
    /// Fewer seeds and settings: to see that it runs, not to quote.
    pub is_quick: bool,
    /// The directory with the published data, a folder per data set.
    pub data: PathBuf,
}

impl MuserveOptions {
    /// Ten seeds, or five for a quick run.
    pub fn new(is_quick: bool, data: PathBuf) -> Self {
        Self {
            seeds: if is_quick { (1..=5).collect() } else { (1..=10).collect() },
            is_quick,
            data,
        }
    }
}

type Experiment = fn(&MuserveOptions, &(dyn Fn(&str) + Sync)) -> Result<Finding>;

const EXPERIMENTS: [(&str, &str, Experiment); 3] = [
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
];

/// The names of all experiments with what they ask.
pub fn muserve_experiments() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXPERIMENTS.into_iter().map(|(name, asks, _)| (name, asks))
}

/// Runs one experiment by name, one of [`muserve_experiments`]; `progress` is called with what is
/// being done.
pub fn run_muserve(
    name: &str,
    options: &MuserveOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let refused = |key: &str, value: &str, expected: &str| Error::OutOfRange {
        key: key.to_owned(),
        value: value.to_owned(),
        source_text: "the command line".to_owned(),
        expected: expected.to_owned(),
    };
    let found = EXPERIMENTS.iter().find(|(known, _, _)| *known == name);
    let Some((name, asks, experiment)) = found else {
        return Err(refused(
            "experiment",
            name,
            "there are muserve/scheduler, muserve/predictor and muserve/fit",
        ));
    };
    if options.seeds.is_empty() {
        return Err(refused("seeds", "none", "at least one seed is needed"));
    }
    let mut finding = experiment(options, progress)?;
    finding.name = (*name).to_owned();
    finding.title = (*asks).to_owned();
    finding.seeds.clone_from(&options.seeds);
    finding.is_quick = options.is_quick;
    Ok(finding)
}

fn empty_finding() -> Finding {
    Finding {
        name: String::new(),
        title: String::new(),
        seeds: Vec::new(),
        is_quick: false,
        tables: Vec::new(),
        pictures: Vec::new(),
        notes: Vec::new(),
        facts: serde_json::Map::new(),
    }
}
