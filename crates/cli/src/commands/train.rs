//! `homeostat train`.

use std::path::{Path, PathBuf};

use clap::Args;
use homeostat_lab::{RunDirectory, Threshold};
use homeostat_train::{ExtraWriters, Training, TrainingSummary};
use serde_json::Value;

use crate::Ending;
use crate::options::{SettingOptions, environments, use_threads};
use crate::output::{Output, in_percent, print_record};
use crate::progress::{LiveView, thousands};

/// Train agents and write a run directory.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat train ppo --env classic/cartpole-v1 --seed 7\n  homeostat train dqn --agents 5                       five agents: a mean with an interval\n  homeostat train ppo --preset simppo --set ppo.clip=0.1\n  homeostat train simppo --seed 7                      a team: twelve agents on one platform\n  homeostat train simppo+ --set faas.functions=24      one network for all agents\n  homeostat train simppo --set simppo.reward_sharing=own          change a part of the method\n  homeostat train --resume runs/ppo-cartpole-v1-seed7  resume after Ctrl-C or a crash\n  homeostat train ppo --fail-if 'return_mean < 475'    exit code 99 if so, for CI"
)]
pub(crate) struct TrainArguments {
    #[command(flatten)]
    settings: SettingOptions,
    /// Run directory [default: a new one under runs/]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    run_dir: Option<PathBuf>,
    /// Resume this run from its latest valid checkpoint; --steps may raise its step budget.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["algorithm", "env", "seed", "agents", "preset", "config", "set", "threads"])]
    resume: Option<PathBuf>,
    /// Also write metrics.csv.
    #[arg(long)]
    csv: bool,
    /// Also write TensorBoard event files.
    #[arg(long)]
    tensorboard: bool,
    /// Exit with code 99 if the summary crosses this threshold, for example 'return_mean < 475'; repeatable.
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,
    /// Output format of the summary.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Print only the summary, no progress.
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(arguments: &TrainArguments) -> anyhow::Result<Ending> {
    let thresholds = parse_thresholds(&arguments.fail_if, &TrainingSummary::FIGURES)?;
    let extra = ExtraWriters { csv: arguments.csv, tensorboard: arguments.tensorboard };
    let mut view = LiveView::new(arguments.quiet)?;
    let training = match &arguments.resume {
        Some(path) => {
            Training::resume(&environments(), path, arguments.settings.steps, extra, &mut view)?
        }
        None => {
            let config = arguments.settings.resolve()?.validate()?;
            let path = arguments
                .run_dir
                .clone()
                .unwrap_or_else(|| RunDirectory::next_free(Path::new("runs"), &config.run_name()));
            Training::start(config, &path, extra)?
        }
    };
    use_threads(training.config().threads)?;
    if !arguments.quiet {
        say!("{}", describe(&training));
    }
    let directory = training.directory().path().to_owned();
    let summary = training.run(&mut view)?;
    report(&summary, &directory, arguments.output, arguments.quiet);
    finish(&summary, &thresholds)
}

/// The thresholds of `--fail-if` on `figures`, refused before any work is done.
pub(crate) fn parse_thresholds(
    texts: &[String],
    figures: &[&str],
) -> anyhow::Result<Vec<Threshold>> {
    let parse = |text: &String| {
        let threshold = Threshold::parse(text)?;
        threshold.check_name(figures)?;
        Ok(threshold)
    };
    texts.iter().map(parse).collect()
}

/// The figures of a record that a threshold can name.
pub(crate) fn figure_names(record: &Value) -> Vec<&str> {
    let fields = record.as_object().into_iter().flatten();
    let numbers = fields.filter(|(_, value)| value.is_number() || value.is_null());
    numbers.map(|(name, _)| name.as_str()).collect()
}

/// Whether a threshold was crossed; says which.
pub(crate) fn crossed(texts: &[Threshold], figures: &Value) -> anyhow::Result<Ending> {
    let mut ending = Ending::Done;
    for threshold in texts {
        if let Some(value) = threshold.crossed_by(figures)? {
            say!("threshold crossed: {threshold}, it is {value}");
            ending = Ending::ThresholdCrossed;
        }
    }
    Ok(ending)
}

fn finish(summary: &TrainingSummary, thresholds: &[Threshold]) -> anyhow::Result<Ending> {
    if summary.figures["status"] == "interrupted" {
        return Ok(Ending::Interrupted);
    }
    match summary.failure() {
        None => crossed(thresholds, &summary.figures),
        Some(failure) => Err(anyhow::anyhow!(failure)),
    }
}

fn report(summary: &TrainingSummary, directory: &Path, output: Output, quiet: bool) {
    let mut record = summary.figures.clone();
    if let Some(fields) = record.as_object_mut() {
        fields.insert("run".to_owned(), Value::String(directory.display().to_string()));
    }
    if !quiet {
        let figure = |name: &str| summary.timing[name].as_f64().unwrap_or(0.0);
        say!("{:.1} s, {} steps/s", figure("elapsed_s"), thousands(figure("steps_per_s")));
    }
    let record = if output == Output::Table { in_percent(record) } else { record };
    print_record(output, &record);
    if summary.figures["status"] == "interrupted" {
        say!("resume with: homeostat train --resume {}", directory.display());
    }
}

fn describe(training: &Training) -> String {
    let config = training.config();
    format!(
        "training {} on {}: {} agent{}, {} steps each, seed {}, kernel {}, {} threads, into {}",
        config.algorithm_name(),
        config.env,
        config.agents,
        if config.agents == 1 { "" } else { "s" },
        config.steps,
        config.seed,
        config.kernel,
        rayon::current_num_threads(),
        training.directory().path().display(),
    )
}
