//! `homeostat reproduce`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use homeostat_lab::reproduce::{PolicyFigures, SrlResult, SrlStudy};
use homeostat_lab::{RunFolder, write_atomically};
use serde_json::{Value, json};

use crate::Ending;
use crate::options::{SeedList, use_threads};
use crate::output::{Output, print, print_records};

/// Repeat the experiments of the papers.
#[derive(Subcommand)]
pub(crate) enum ReproduceCommand {
    /// One agent for each of twelve functions (section 4.5): alone against heuristics, the same
    /// agents together at four loads, and agents trained together.
    #[command(
        name = "s-rl",
        after_help = "Examples:\n  homeostat reproduce s-rl --quick                a look, in a minute or two\n  homeostat reproduce s-rl --output json > s-rl.json"
    )]
    SRl(StudyArguments),
}

#[derive(Args)]
pub(crate) struct StudyArguments {
    /// Fewer seeds, episodes and loads: to see that it runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// Seeds of training, as 1..5.
    #[arg(long)]
    seeds: Option<SeedList>,
    /// Episodes of training.
    #[arg(long, value_parser = clap::value_parser!(u64).range(50..=1_000_000))]
    episodes: Option<u64>,
    /// Where the figures are written too; by default a new file under runs/.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Form of the result.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Worker threads; results do not depend on it.
    #[arg(long)]
    threads: Option<usize>,
}

pub(crate) fn run(command: &ReproduceCommand) -> anyhow::Result<Ending> {
    let ReproduceCommand::SRl(arguments) = command;
    use_threads(arguments.threads)?;
    let mut study = if arguments.quick { SrlStudy::quick() } else { SrlStudy::full() };
    if let Some(seeds) = &arguments.seeds {
        study.seeds.clone_from(&seeds.0);
    }
    if let Some(episodes) = arguments.episodes {
        study.episodes = episodes;
    }
    let result = study.run(&mut |what| say!("{what}"))?;
    let path = match &arguments.out {
        Some(path) => path.clone(),
        None => RunFolder::next_free(Path::new("runs"), "reproduce-s-rl.json"),
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    write_atomically(&path, format!("{:#}\n", json!(result)).as_bytes())?;
    match arguments.output {
        Output::Json => print(&format!("{:#}\n", json!(result))),
        Output::Table => show(&result),
        output => print_records(output, &rows(&result)),
    }
    say!("figures in {}", path.display());
    Ok(Ending::Done)
}

/// Every policy in every scenario, a flat row each.
fn rows(result: &SrlResult) -> Vec<Value> {
    let row = |scenario: &str, reward: &str, load: Option<f64>, figures: &PolicyFigures| {
        let mut row = json!({ "scenario": scenario, "reward": reward, "load_pct": load });
        let fields = json!(figures);
        for (name, value) in fields.as_object().into_iter().flatten() {
            match value["mean"].as_f64() {
                Some(mean) => {
                    row[name] = json!(mean);
                    row[format!("{name}_interval")] = value["interval"].clone();
                }
                None => row[name] = value.clone(),
            }
        }
        row
    };
    let mut rows = Vec::new();
    for isolated in &result.isolated {
        let policies = isolated.policies.iter();
        rows.extend(policies.map(|figures| row("alone", isolated.reward, None, figures)));
    }
    for together in &result.together {
        let (reward, load) = (together.reward, Some(together.load_pct));
        rows.extend(together.policies.iter().map(|figures| row("together", reward, load, figures)));
    }
    for joint in &result.joint {
        rows.push(row("trained together", joint.reward, Some(joint.load_pct), &joint.policy));
    }
    rows
}

fn show(result: &SrlResult) {
    for isolated in &result.isolated {
        say!(
            "\nalone, reward {}: 95 % of the way after {} episodes ({:.0} to {:.0} by function; paper \
             280 to 350; {} agents gained nothing), training reward {}",
            isolated.reward,
            isolated.episodes_to_95_pct,
            isolated.quickest_and_slowest.0,
            isolated.quickest_and_slowest.1,
            isolated.without_gain,
            isolated.training_reward
        );
        print_records(Output::Table, &isolated.policies.iter().map(record).collect::<Vec<_>>());
    }
    for together in &result.together {
        let (low, mean, high) = together.p99_over_alone;
        say!(
            "\ntogether at {:.0} % load, reward {}: p99 {mean:.1} times that alone, {low:.1} to {high:.1} \
             by function (paper 2.2 to 4.8)",
            together.load_pct,
            together.reward
        );
        let mut records: Vec<Value> = together.policies.iter().map(record).collect();
        let joint = result
            .joint
            .iter()
            .find(|joint| joint.reward == together.reward && joint.load_pct == together.load_pct);
        if let Some(joint) = joint {
            records.push(record(&joint.policy));
        }
        print_records(Output::Table, &records);
        if let Some(joint) = joint {
            say!(
                "trained together: reward {} a step, alone {}: {} % below (paper 55.9 %)",
                joint.training_reward,
                joint.alone_reward,
                joint.below_alone_pct
            );
        }
    }
}

fn record(figures: &PolicyFigures) -> Value {
    json!({
        "policy": figures.policy,
        "miss_pct": figures.miss_pct.to_string(),
        "p99_over_slo": figures.p99_over_slo.to_string(),
        "preservation": figures.preservation.to_string(),
        "cpu_util": figures.cpu_utilisation.to_string(),
        "memory_util": figures.memory_utilisation.to_string(),
        "container_s": figures.container_s.to_string(),
        "memory_gib_s": figures.memory_gib_s.to_string(),
        "reward": figures.reward.to_string(),
    })
}
