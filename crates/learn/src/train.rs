//! `homeostat learn`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::{Args, ValueEnum};
use homeostat_core::{AgentId, SeedTree};
use homeostat_nn::Kernel;
use homeostat_rl::{
    AgentContext, OfflineAlgorithm, OfflineDataset, OfflineLearner, Recording, RunProvenance,
    Workspace, recorded_env,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::checkpoint;
use crate::evaluate::{EvaluationOptions, Judgement};
use crate::output::{Output, print_record, say};
use crate::recorded::SourceOptions;
use crate::repeat;

/// Reads recorded decisions, learns a policy without acting, evaluates it on trajectories that it did
/// not learn from, and writes it if it is admitted. A former file stays otherwise, and the exit code is
/// 99. With --every it learns for each workload of a store, as long as it runs. Killed at any moment, it goes on from its last checkpoint when it is started again with the same
/// settings and decisions.
#[derive(Args, Clone)]
#[command(
    after_help = "Examples:\n  homeostat sim deploy --policy hpa+vpa --duration 1h --seeds 1..20 --record --run-dir runs/recorded\n  homeostat learn runs/recorded/decisions.jsonl --out shop.policy\n  homeostat sim deploy --policy shop.policy --duration 1h --seeds 101..105\n  homeostat learn shop.db --workload shop/checkout --algorithm bcq --margin 0.01 --out shop.policy\n  homeostat learn decisions.db --behaviour hpa+vpa --every 1h --out policies"
)]
pub(crate) struct LearnArguments {
    #[command(flatten)]
    pub(crate) source: SourceOptions,
    /// Policy file to write; with --every, a directory that gets NAMESPACE/NAME.policy for each workload.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Learn again after this time, such as 1h, for each workload of the store that has new decisions.
    #[arg(long, value_name = "TIME", value_parser = repeat::duration)]
    every: Option<Duration>,
    /// How to learn: bcq (batch-constrained Q-learning, as AWARE has it), iql (implicit Q-learning), td3-bc
    /// (TD3 with behaviour cloning).
    #[arg(long, value_enum, default_value_t = Choice::Bcq)]
    algorithm: Choice,
    /// What the policy answers, where decisions on pods are recorded: allocations, or factors on the present
    /// allocation, whose errors add up from decision to decision.
    #[arg(long, value_enum, default_value_t)]
    actions: Actions,
    /// Gradient steps.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Seed of weights and minibatches.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Gradient steps between two checkpoints.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint_every: u64,
    /// Write the policy even if it is not admitted; the exit code stays 99.
    #[arg(long)]
    write_anyway: bool,
    #[command(flatten)]
    settings: EvaluationOptions,
    /// Print only the result, no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    Bcq,
    Iql,
    Td3Bc,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Actions {
    #[default]
    Allocations,
    Factors,
}

/// One trajectory in so many is kept from learning, for the evaluation.
const HELD_OUT: usize = 4;
/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(5);

pub(crate) fn run(arguments: &LearnArguments) -> anyhow::Result<bool> {
    match arguments.every {
        Some(every) => repeat::run(arguments, every),
        None => learn(arguments),
    }
}

/// Learns once.
pub(crate) fn learn(arguments: &LearnArguments) -> anyhow::Result<bool> {
    let algorithm = match arguments.algorithm {
        Choice::Bcq => OfflineAlgorithm::Bcq,
        Choice::Iql => OfflineAlgorithm::Iql,
        Choice::Td3Bc => OfflineAlgorithm::Td3Bc,
    };
    arguments.settings.config()?;
    let recorded = arguments.source.read()?;
    let recordings = match arguments.actions {
        Actions::Allocations => recorded.into_allocations(),
        Actions::Factors => recorded,
    };
    let spec = recorded_env(&recordings.schema)?;
    let (held_out, learnt_from) = split(&recordings.trajectories);
    let least = homeostat_rl::MIN_TRAJECTORIES;
    ensure!(
        held_out.len() >= least,
        "{} trajectories are too few: every fourth is kept for the evaluation, which needs {least}; \
         record at least {}",
        recordings.trajectories.len(),
        HELD_OUT * least
    );
    let data = OfflineDataset::from_recordings(&spec, learnt_from)?;
    let seeds = SeedTree::new(arguments.seed).child("learn");
    let context = AgentContext { agent: AgentId::new(0), spec, seeds };
    let mut learner = algorithm.default_config().build(&context)?;
    let decisions = digest(&recordings.trajectories);
    let settings = json!({
        "algorithm": algorithm.name(),
        "seed": arguments.seed,
        "decisions": decisions,
    });
    let path = checkpoint::path_beside(&arguments.out);
    if checkpoint::restore(&path, &settings, learner.as_mut())? {
        say(arguments.quiet, &format!("continuing after {} steps", learner.steps()));
    }
    train(arguments, &settings, &data, learner.as_mut())?;

    let policy = learner.policy().with_run(Some(provenance(
        arguments.seed,
        &recordings.behaviours,
        &settings,
        learner.steps(),
    )));
    let held_out: Vec<Recording> = held_out.into_iter().cloned().collect();
    let Judgement { is_admitted, record, recorded } =
        arguments.settings.judge(&policy, &held_out)?;
    let policy = policy.with_evaluation(Some(recorded));
    let is_written = is_admitted || arguments.write_anyway;
    if is_written {
        checkpoint::write_whole(&arguments.out, &policy.to_bytes())?;
    }
    print_record(
        arguments.output,
        &json!({
            "policy": is_written.then(|| arguments.out.display().to_string()),
            "algorithm": algorithm.name(),
            "steps": learner.steps(),
            "transitions": data.len(),
            "evaluation": record,
        }),
    );
    Ok(is_admitted)
}

/// What the policy file says of where it comes from.
fn provenance(
    seed: u64,
    behaviours: &BTreeSet<String>,
    settings: &Value,
    steps: u64,
) -> RunProvenance {
    let text = |key: &str| settings[key].as_str().unwrap_or_default().to_owned();
    let behaviours: Vec<&str> = behaviours.iter().map(String::as_str).collect();
    let settings = BTreeMap::from([
        ("learn.algorithm".to_owned(), text("algorithm")),
        ("learn.behaviours".to_owned(), behaviours.join(", ")),
        ("learn.decisions_sha256".to_owned(), text("decisions")),
    ]);
    let digest = Sha256::digest(format!("{seed}\n{steps}\n{settings:?}"));
    let hash = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    RunProvenance { seed, steps, settings, hash }
}

/// Trajectories for the evaluation, and those to learn from.
fn split(all: &[Recording]) -> (Vec<&Recording>, Vec<&Recording>) {
    let (mut held_out, mut learnt_from) = (Vec::new(), Vec::new());
    for (index, recording) in all.iter().enumerate() {
        match index % HELD_OUT {
            0 => held_out.push(recording),
            _ => learnt_from.push(recording),
        }
    }
    (held_out, learnt_from)
}

fn train(
    arguments: &LearnArguments,
    settings: &Value,
    data: &OfflineDataset,
    learner: &mut dyn OfflineLearner,
) -> anyhow::Result<()> {
    let path = checkpoint::path_beside(&arguments.out);
    let mut workspace = Workspace::new(Kernel::best());
    let mut told = Instant::now();
    while learner.steps() < arguments.steps {
        let learned = learner.learn(data, &mut workspace)?;
        let steps = learner.steps();
        if steps.is_multiple_of(arguments.checkpoint_every) || steps == arguments.steps {
            checkpoint::save(&path, settings, learner)?;
        }
        if told.elapsed() > PROGRESS {
            told = Instant::now();
            let figures = learned.figures.iter().map(|(name, value)| format!("{name} {value:.4}"));
            let figures = figures.collect::<Vec<_>>().join(", ");
            say(arguments.quiet, &format!("step {steps} of {}: {figures}", arguments.steps));
        }
    }
    Ok(())
}

/// What the decisions are, so that a checkpoint of others is not continued.
fn digest(all: &[Recording]) -> String {
    let mut hash = Sha256::new();
    for recording in all {
        hash.update(recording.workload.as_bytes());
        for transition in &recording.transitions {
            let numbers = transition.observation.iter().chain(&transition.action);
            numbers.for_each(|number| hash.update(number.to_le_bytes()));
            hash.update(transition.reward.to_le_bytes());
        }
        hash.update([u8::from(recording.end.is_some())]);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
