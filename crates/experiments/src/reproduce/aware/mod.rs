//! The experiments of chapter 5 of the dissertation (AWARE), on simulated Deployments.

mod bootstrapping;
mod coverage;
mod early_training;
mod play;
mod ratio;
mod serving;
mod workload;

use homeostat_lab::{Result, nearest};
use homeostat_report::Finding;

use crate::reproduce::refused_call;

/// How much to run.
#[derive(Debug, Clone)]
pub struct AwareOptions {
    /// Seeds: each is one A/B test, on an application and a load of its own.
    pub seeds: Vec<u64>,
    /// Fewer seeds and episodes: to see that it runs, not to quote.
    pub is_quick: bool,
}

impl AwareOptions {
    /// Ten tests, or two for a quick run.
    pub fn new(is_quick: bool) -> Self {
        Self { seeds: if is_quick { vec![1, 2] } else { (1..=10).collect() }, is_quick }
    }
}

type Experiment = fn(&AwareOptions, &(dyn Fn(&str) + Sync)) -> Result<Finding>;

const EXPERIMENTS: [(&str, &str, Experiment); 4] = [
    (
        "aware/early-training",
        "what an agent loses against HPA and VPA while it begins to learn (Table 5.3)",
        early_training::early_training,
    ),
    (
        "aware/bootstrapping",
        "training with and without bootstrapping from HPA and VPA (figure 5.10)",
        bootstrapping::bootstrapping,
    ),
    (
        "aware/serving",
        "serving through seven changes of the workload, with and without retraining (figure 5.9)",
        serving::serving,
    ),
    (
        "aware/coverage",
        "how often intervals of off-policy evaluation hold the true value of a policy",
        coverage::coverage,
    ),
];

/// The names of all experiments with what they ask.
pub fn aware_experiments() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXPERIMENTS.into_iter().map(|(name, asks, _)| (name, asks))
}

/// Runs one experiment by name, one of [`aware_experiments`]; `progress` is called with what is
/// being done.
pub fn run_aware(
    name: &str,
    options: &AwareOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let found = EXPERIMENTS.iter().find(|(known, _, _)| *known == name);
    let Some((name, asks, experiment)) = found else {
        let names: Vec<&str> = aware_experiments().map(|(name, _)| name).collect();
        let hint = nearest(name, names.iter().copied());
        let expected = format!("there are {}{hint}", names.join(", "));
        return Err(refused_call("experiment", name, expected));
    };
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

/// What an experiment found, without its name.
fn finding(
    tables: Vec<homeostat_report::Table>,
    notes: &[&str],
    facts: serde_json::Value,
) -> Finding {
    Finding {
        tables,
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        facts: facts.as_object().cloned().unwrap_or_default(),
        ..Finding::default()
    }
}
