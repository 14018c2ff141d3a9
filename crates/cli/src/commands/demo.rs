//! `homeostat demo`: the whole story in under a minute.

use std::path::{Path, PathBuf};

use clap::Args;
use homeostat_core::SimDuration;
use homeostat_lab::simulate::{Controllers, FinishedSimulation, Scenario, Simulation};
use homeostat_lab::{
    ExtraWriters, RunConfig, RunFolder, Settings, Training, UserLayers, load_candidates,
    write_report,
};
use homeostat_rl::Sampling;
use serde_json::{Value, json};

use crate::Ending;
use crate::commands::sim::{play_watched, summary_record};
use crate::output::{Output, print, print_records};
use crate::progress::LiveView;

/// Train agents for twelve serverless functions, play them against autoscalers, and report.
#[derive(Args)]
pub(crate) struct DemoArguments {
    /// Seed of the training; the comparison has seeds of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: u64,
    /// Episodes of each agent.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    episodes: u64,
    /// Seeds of the comparison.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    trials: u64,
}

/// Whom the agents are compared with.
const RIVALS: [&str; 2] = ["hpa+vpa", "ensure"];

/// Steps of an episode, and a round of the live view: something moves at once.
const EPISODE_STEPS: u64 = 50;
const ROUND_STEPS: u64 = 500;

/// Seeds of the comparison begin here, far from those of training.
const FIRST_TRIAL: u64 = 1_000_000;

pub(crate) fn run(arguments: &DemoArguments) -> anyhow::Result<Ending> {
    let config = config(arguments)?;
    let plan = config.worlds.faas().expect("a serverless environment has a plan").clone();
    say!(
        "Twelve serverless functions, each with a latency objective. An agent for each learns, from\n\
         nothing and by itself, to keep the objective with few containers and little memory.\n\
         Then all of them share a cluster at {:.0} % load. Ctrl-C stops early.\n",
        100.0 * plan.mean_load()
    );
    let folder = RunFolder::next_free(Path::new("runs"), "demo");
    let mut view = LiveView::new(false)?;
    let learned = folder.join("agents");
    let training = Training::start(config.clone(), &learned, ExtraWriters::default())?;
    let summary = training.run(&mut view)?;
    if summary.figures["status"] == "interrupted" {
        say!("stopped; what was learnt so far is in {}", learned.display());
        return Ok(Ending::Done);
    }
    let seconds = summary.timing["elapsed_s"].as_f64().unwrap_or(0.0);
    say!("learnt in {seconds:.1} s; now against the autoscalers, on requests none of them has met");

    let (candidates, _) = load_candidates(&learned)?;
    let (name, sampling) = ("learned".to_owned(), Sampling::Greedy);
    let mut controllers = vec![Controllers::Learned { name, candidates, sampling }];
    for name in RIVALS {
        controllers.push(Controllers::parse(name, Sampling::Greedy)?);
    }
    let mut finished = Vec::new();
    for controllers in controllers {
        let simulation = Simulation {
            plan: plan.clone(),
            scenario: Scenario::Together,
            controllers,
            duration: SimDuration::from_secs(1000),
        };
        finished.push(play(&simulation, &config, &folder, arguments.trials)?);
    }
    print_records(Output::Table, &finished.iter().map(row).collect::<Vec<_>>());

    let report = folder.join("report.html");
    let mut runs: Vec<PathBuf> = finished.iter().map(|run| run.path.clone()).collect();
    runs.push(learned);
    write_report(&runs, Some("Twelve functions, three ways to run them"), &report)?;
    print(&format!("\nreport      {}\nrun folders {}\n", report.display(), folder.display()));
    Ok(Ending::Done)
}

fn config(arguments: &DemoArguments) -> anyhow::Result<RunConfig> {
    let flag = |key: &str, value: String| (key.to_owned(), value, format!("of the demo, {key}"));
    let flags = vec![
        flag("run.preset", "s-rl".to_owned()),
        flag("run.env", "faas/function-v1".to_owned()),
        flag("run.seed", arguments.seed.to_string()),
        flag("run.agents", "12".to_owned()),
        flag("run.steps", (arguments.episodes * EPISODE_STEPS).to_string()),
        flag("run.log_every", ROUND_STEPS.to_string()),
        flag("faas.reward", "cost".to_owned()),
    ];
    Ok(Settings::resolve(&UserLayers { flags, ..UserLayers::default() })?.validate()?)
}

fn play(
    simulation: &Simulation,
    config: &RunConfig,
    folder: &Path,
    trials: u64,
) -> anyhow::Result<FinishedSimulation> {
    let seeds = (FIRST_TRIAL..FIRST_TRIAL + trials).collect();
    let facts = simulation.facts(None, seeds);
    let path = folder.join(format!("sim-{}", facts.policy));
    play_watched(simulation, &facts, config, &path, false)
}

/// The figures that people look at first.
fn row(run: &FinishedSimulation) -> Value {
    let all = summary_record(run);
    let misses = match all["miss_interval"].as_f64() {
        Some(interval) => {
            format!("{:.1} +- {interval:.1}", all["miss_pct"].as_f64().unwrap_or(0.0))
        }
        None => format!("{:.1}", all["miss_pct"].as_f64().unwrap_or(0.0)),
    };
    json!({
        "policy": all["policy"],
        "misses_pct": misses,
        "p99_over_objective": all["p99_over_slo"],
        "container_seconds": all["container_s"].as_f64().map(f64::round),
        "memory_gib_seconds": all["memory_gib_s"].as_f64().map(f64::round),
        "starts": all["cold_starts"],
    })
}
