//! The experiments of chapter 4 of the dissertation with many agents, and those beyond it.

mod bench;
mod beyond;
mod churn;
mod coordination;
mod cross;
mod methods;
mod overhead;
mod scale;

use bench::Bench;
use homeostat_lab::{Error, Result, nearest};
use homeostat_report::Finding;

/// How much to run.
#[derive(Debug, Clone)]
pub struct SimppoOptions {
    /// Seeds of training; each has evaluation seeds of its own.
    pub seeds: Vec<u64>,
    /// Fewer episodes and sizes: to see that it runs, not to quote.
    pub is_quick: bool,
}

impl SimppoOptions {
    /// Ten seeds, or two for a quick run.
    pub fn new(is_quick: bool) -> Self {
        Self { seeds: if is_quick { vec![1, 2] } else { (1..=10).collect() }, is_quick }
    }
}

type Experiment = fn(&Bench<'_>) -> Result<Finding>;

/// Name, what it asks, and how to find out.
const EXPERIMENTS: [(&str, &str, Experiment); 14] = [
    ("simppo/fig-4.3", "training alone and together", methods::figure_4_3),
    ("simppo/fig-4.4", "latency on one platform of agents trained alone", methods::figure_4_4),
    ("simppo/fig-4.6", "training with the team's reward, and one at a time", methods::figure_4_6),
    ("simppo/fig-4.7", "latency of both", methods::figure_4_7),
    ("simppo/fig-4.9", "functions added and removed, with base models", churn::figure_4_9),
    ("simppo/fig-4.10", "the same without base models", churn::figure_4_10),
    ("simppo/fig-4.11", "latency of SIMPPO on a shared platform", methods::figure_4_11),
    ("simppo/fig-4.12", "memory and CPU of an agent", overhead::figure_4_12),
    ("simppo/fig-4.13", "20 agents and 110", scale::figure_4_13),
    ("simppo/fig-4.14", "actions per second", overhead::figure_4_14),
    ("simppo/table-4.4", "reward drop and retraining after churn", churn::table_4_4),
    ("simppo/cross", "reward, critic and sharing, crossed", cross::cross),
    (
        "simppo/coordination",
        "simppo+ against the best other policy at four loads",
        coordination::coordination,
    ),
    ("simppo/beyond", "a thousand functions, typed virtual agents, chains", beyond::beyond),
];

/// The names of all experiments with what they ask, in the order of the chapter.
pub fn simppo_experiments() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXPERIMENTS.into_iter().map(|(name, asks, _)| (name, asks))
}

/// Runs one experiment by name; `progress` is called with what is being done.
pub fn run_simppo(
    name: &str,
    options: &SimppoOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Finding> {
    let found = EXPERIMENTS.iter().find(|(known, _, _)| *known == name);
    let Some((name, asks, experiment)) = found else {
        let names: Vec<_> = EXPERIMENTS.iter().map(|(known, _, _)| *known).collect();
        return Err(Error::OutOfRange {
            key: "experiment".to_owned(),
            value: name.to_owned(),
            source_text: "the command line".to_owned(),
            expected: format!(
                "there are {}{}",
                names.join(", "),
                nearest(name, names.iter().copied())
            ),
        });
    };
    if options.seeds.is_empty() {
        return Err(Error::OutOfRange {
            key: "seeds".to_owned(),
            value: "none".to_owned(),
            source_text: "flag --seeds".to_owned(),
            expected: "at least one seed is needed".to_owned(),
        });
    }
    let bench = Bench { options, progress };
    let mut finding = experiment(&bench)?;
    finding.name = (*name).to_owned();
    finding.title = (*asks).to_owned();
    finding.seeds.clone_from(&options.seeds);
    finding.is_quick = options.is_quick;
    Ok(finding)
}
