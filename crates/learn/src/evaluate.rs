//! `homeostat evaluate-offline`.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use homeostat_decide::AllocationTarget;
use homeostat_rl::{
    EvaluationConfig, OfflineEvaluation, Policy, RecordedEvaluation, Recording, evaluate,
};
use serde_json::{Value, json};

use crate::output::{Output, print_record};
use crate::recorded::SourceOptions;

/// Fitted Q and doubly robust estimates of a policy's mean discounted reward, from decisions of
/// another policy. Exit code 99 if the policy is not admitted: the lower bound of its value by fitted Q
/// is below the behaviour's value minus the margin.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat evaluate-offline shop.db --policy shop.policy --workload shop/checkout\n  homeostat evaluate-offline decisions.jsonl --policy shop.policy --margin 0.02 --output json\n\nThe intervals count the chance in the recorded trajectories. They do not count what the recorded\nactions never tried: `distance` says how far the policy's actions are from them."
)]
pub(crate) struct EvaluateArguments {
    #[command(flatten)]
    source: SourceOptions,
    /// Policy file to evaluate.
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    #[command(flatten)]
    settings: EvaluationOptions,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Args, Clone)]
pub(crate) struct EvaluationOptions {
    /// How much of the behaviour's value the policy may lose at most, in units of one reward.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    margin: f64,
    /// Discount factor of the value.
    #[arg(long, default_value_t = 0.9)]
    discount: f64,
    /// Part of repeated evaluations whose interval should hold the true value.
    #[arg(long, default_value_t = 0.95)]
    confidence: f64,
    /// Seed of the resamples that the intervals come from.
    #[arg(long, default_value_t = 1)]
    evaluation_seed: u64,
}

impl EvaluationOptions {
    pub(crate) fn config(&self) -> anyhow::Result<EvaluationConfig> {
        let margin = self.margin;
        ensure!(
            margin.is_finite() && margin >= 0.0,
            "--margin {margin} is out of range: it must be a number, 0 or above"
        );
        let config = EvaluationConfig {
            gamma: self.discount,
            confidence: self.confidence,
            seed: self.evaluation_seed,
            ..EvaluationConfig::default()
        };
        config.validate()?;
        Ok(config)
    }

    /// Evaluates the policy, and says whether it is admitted.
    pub(crate) fn judge(
        &self,
        policy: &Policy,
        recordings: &[Recording],
    ) -> anyhow::Result<Judgement> {
        let found = evaluate(policy, recordings, &self.config()?)?;
        let needed = found.behaviour.value - self.margin;
        let is_admitted = found.fitted_q.low >= needed;
        let OfflineEvaluation { trajectories, transitions, behaviour, fitted_q, gain, .. } = found;
        let record = json!({
            "admitted": is_admitted,
            "needed": needed,
            "fitted_q": fitted_q,
            "behaviour": behaviour,
            "gain": gain,
            "doubly_robust": found.doubly_robust,
            "effective_transitions": found.effective_transitions,
            "distance": found.distance,
            "trajectories": trajectories,
            "transitions": transitions,
        });
        let recorded = RecordedEvaluation {
            policy_low: fitted_q.low,
            behaviour: behaviour.value,
            confidence: self.confidence,
            discount: self.discount,
            trajectories,
            transitions,
        };
        Ok(Judgement { is_admitted, record, recorded })
    }
}

/// What an evaluation says of a policy.
pub(crate) struct Judgement {
    pub(crate) is_admitted: bool,
    /// All figures, for people and programs.
    pub(crate) record: Value,
    /// The figures that the policy file keeps.
    pub(crate) recorded: RecordedEvaluation,
}

pub(crate) fn run(arguments: &EvaluateArguments) -> anyhow::Result<bool> {
    let path = &arguments.policy;
    let named = || path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", named()))?;
    let policy = Policy::from_bytes(&bytes).with_context(named)?;
    let mut recordings = arguments.source.read()?;
    if policy.schema().action.id == AllocationTarget::schema().id {
        recordings = recordings.into_allocations();
    }
    let (of_policy, recorded) = (policy.schema(), &recordings.schema);
    let ids = |schema: &homeostat_core::ControlSchema| {
        (schema.features.id.clone(), schema.action.id.clone())
    };
    ensure!(
        ids(of_policy) == ids(recorded),
        "{} reads {} and answers {}, and the decisions are of {} and {}: evaluate a policy on decisions \
         of its own schemas",
        named(),
        of_policy.features.id,
        of_policy.action.id,
        recorded.features.id,
        recorded.action.id
    );
    let Judgement { is_admitted, record, .. } =
        arguments.settings.judge(&policy, &recordings.trajectories)?;
    print_record(arguments.output, &record);
    Ok(is_admitted)
}
