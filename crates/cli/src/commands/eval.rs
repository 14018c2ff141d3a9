//! `homeostat eval`.

use std::path::PathBuf;

use clap::Args;
use homeostat_lab::{Summary, env_factory_of, load_candidates};
use homeostat_nn::Kernel;
use homeostat_rl::Sampling;
use homeostat_train::{Evaluation, EvaluationConfig, evaluate_watched};
use serde_json::{Value, json};

use crate::Ending;
use crate::commands::train::{crossed, parse_thresholds};
use crate::options::{count, environments, use_threads};
use crate::output::{Output, print_record, print_records};
use crate::progress::CountView;

/// Evaluate the policies of a run, or one policy file.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat eval runs/ppo-cartpole-v1-seed1\n  homeostat eval runs/ppo-cartpole-v1-seed1/policies/agent-0.policy --episodes 1000\n  homeostat eval RUN --output json --fail-if 'return_mean < 475'"
)]
pub(crate) struct EvalArguments {
    /// Run directory or .policy file.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Episodes per policy.
    #[arg(long, default_value_t = 100, value_parser = count, allow_negative_numbers = true)]
    episodes: u64,
    /// Seed of the environments; independent of the training seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sample actions from the policy instead of taking the most probable.
    #[arg(long)]
    stochastic: bool,
    /// Print one row per agent instead of the summary.
    #[arg(long)]
    per_agent: bool,
    /// Exit with code 99 if the summary crosses this threshold, for example 'return_mean < 475'; repeatable.
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Worker threads [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
    /// Print only the result, no progress.
    #[arg(long, short)]
    quiet: bool,
}

/// The figures of [`summary_record`].
const FIGURES: [&str; 7] = [
    "agents",
    "episodes",
    "return_mean",
    "return_interval",
    "return_min",
    "return_max",
    "length_mean",
];

pub(crate) fn run(arguments: &EvalArguments) -> anyhow::Result<Ending> {
    let thresholds = parse_thresholds(&arguments.fail_if, &FIGURES)?;
    use_threads(arguments.threads)?;
    let candidates = load_candidates(&arguments.run)?;
    let env_factory = env_factory_of(&arguments.run, &environments())?;
    let config = EvaluationConfig {
        episodes: usize::try_from(arguments.episodes).unwrap_or(usize::MAX),
        seed: arguments.seed,
        sampling: if arguments.stochastic { Sampling::Stochastic } else { Sampling::Greedy },
        kernel: Kernel::best(),
    };
    let view = CountView::new("episodes", arguments.quiet)?;
    let evaluations = evaluate_watched(
        candidates,
        &env_factory,
        &config,
        view.interruption(),
        &|done, total| {
            view.show(done, total);
        },
    )?;
    view.finish();
    let figures = summary_record(&evaluations, config.episodes);
    if arguments.per_agent {
        print_records(arguments.output, &evaluations.iter().map(agent_record).collect::<Vec<_>>());
    } else {
        print_record(arguments.output, &figures);
    }
    crossed(&thresholds, &figures)
}

/// All agents together. With several agents the interval is that of their means:
/// episodes of one agent are not independent evidence about the algorithm.
pub(crate) fn summary_record(evaluations: &[Evaluation], episodes: usize) -> Value {
    let means: Vec<f64> = evaluations.iter().map(|evaluation| evaluation.summary().mean).collect();
    let lengths: Vec<f64> =
        evaluations.iter().flat_map(|evaluation| evaluation.lengths.iter().copied()).collect();
    let over = match evaluations {
        [only] => only.summary(),
        _ => Summary::of(&means).expect("at least one policy was loaded"),
    };
    json!({
        "agents": evaluations.len(),
        "episodes": episodes,
        "return_mean": over.mean,
        "return_interval": over.interval(),
        "return_min": over.min,
        "return_max": over.max,
        "length_mean": Summary::of(&lengths).map(|summary| summary.mean),
    })
}

fn agent_record(evaluation: &Evaluation) -> Value {
    let summary = evaluation.summary();
    json!({
        "agent": evaluation.name,
        "episodes": summary.count,
        "return_mean": summary.mean,
        "return_interval": summary.interval(),
        "return_min": summary.min,
        "return_max": summary.max,
        "length_mean": Summary::of(&evaluation.lengths).map(|lengths| lengths.mean),
    })
}
