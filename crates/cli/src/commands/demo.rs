//! `homeostat demo`.

use std::path::Path;

use clap::Args;
use homeostat_lab::{
    EvaluationConfig, ExtraWriters, RunFolder, Settings, Training, UserLayers, draw_curves,
    evaluate, read_curves,
};
use homeostat_nn::Kernel;
use homeostat_rl::Sampling;
use serde_json::json;

use crate::Ending;
use crate::commands::eval::load_policies;
use crate::output::{Output, print, print_records};
use crate::progress::LiveView;

/// Train agents live on CartPole, evaluate them and draw their learning curve.
#[derive(Args)]
pub(crate) struct DemoArguments {
    /// Everything random follows from it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: u64,
    /// Agents to train at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    agents: u32,
    /// Steps of each agent.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(2048..=100_000_000))]
    steps: u64,
}

const GOAL: f64 = 475.0;

pub(crate) fn run(arguments: &DemoArguments) -> anyhow::Result<Ending> {
    say!(
        "{} agents learn to balance a pole on a cart, each from nothing and by itself.\n\
         A perfect score is 500 steps; {GOAL} counts as solved. Ctrl-C stops early.\n",
        arguments.agents
    );
    let flag = |key: &str, value: String| (key.to_owned(), value, format!("of the demo, {key}"));
    let flags = vec![
        flag("run.algorithm", "ppo".to_owned()),
        flag("run.env", "classic/cartpole-v1".to_owned()),
        flag("run.seed", arguments.seed.to_string()),
        flag("run.agents", arguments.agents.to_string()),
        flag("run.steps", arguments.steps.to_string()),
    ];
    let config = Settings::resolve(&UserLayers { flags, ..UserLayers::default() })?.validate()?;
    let path = RunFolder::next_free(Path::new("runs"), "demo");
    let mut view = LiveView::new(false)?;
    let training = Training::start(config, &path, ExtraWriters::default())?;
    let summary = training.run(&mut view)?;

    let evaluation = EvaluationConfig {
        episodes: 100,
        seed: 1,
        sampling: Sampling::Greedy,
        kernel: Kernel::best(),
    };
    let evaluations = evaluate(load_policies(&path)?, &evaluation)?;
    let records: Vec<_> = evaluations
        .iter()
        .map(|evaluation| {
            let reached = evaluation.summary();
            json!({
                "agent": evaluation.name,
                "return_mean": reached.mean,
                "worst": reached.min,
                "best": reached.max,
                "solved": if reached.mean >= GOAL { "yes" } else { "no" },
            })
        })
        .collect();
    say!("\n100 episodes of each policy that was learnt, on worlds it has never met:");
    print_records(Output::Table, &records);

    let folder = RunFolder::open(&path)?;
    let picture = folder.file("curve.svg");
    let title = format!("{} agents learn to balance a pole", arguments.agents);
    draw_curves(&title, &read_curves(std::slice::from_ref(&folder))?, &[GOAL], &picture)?;
    let seconds = summary.timing["elapsed_s"].as_f64().unwrap_or(0.0);
    print(&format!(
        "\ntrained in {seconds:.1} s\nlearning curve  {}\nrun folder      {}\n",
        picture.display(),
        path.display()
    ));
    Ok(Ending::Done)
}
