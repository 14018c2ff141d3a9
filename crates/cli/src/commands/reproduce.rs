//! `homeostat reproduce`.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValue;
use homeostat_lab::reproduce::{
    Finding, PolicyFigures, SimppoOptions, SrlResult, SrlStudy, Table, run_simppo,
    simppo_experiments,
};
use homeostat_lab::{RunFolder, write_atomically};
use serde_json::{Map, Value, json};

use crate::Ending;
use crate::options::{SeedList, use_threads};
use crate::output::{Output, print, print_records};

/// Repeat an experiment of the papers: ours beside what was published, with intervals.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat reproduce s-rl --quick                 a look, in a minute or two\n  homeostat reproduce simppo/coordination --output json > coordination.json\n  homeostat reproduce simppo/table-4.4 --seeds 11..20    fresh seeds"
)]
pub(crate) struct ReproduceArguments {
    /// Which experiment.
    #[arg(value_parser = experiments())]
    experiment: String,
    /// Fewer seeds, episodes and sizes: to see that it runs, not to quote.
    #[arg(long)]
    quick: bool,
    /// Seeds of training, as 1..5.
    #[arg(long)]
    seeds: Option<SeedList>,
    /// Episodes of training, of s-rl only.
    #[arg(long, value_parser = clap::value_parser!(u64).range(50..=1_000_000))]
    episodes: Option<u64>,
    /// Where the figures are written too; by default a new file under runs/. A page for people
    /// is written beside it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Form of the result.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Worker threads; results do not depend on it.
    #[arg(long)]
    threads: Option<usize>,
}

/// The name of the study of single agents.
const S_RL: &str = "s-rl";

fn experiments() -> Vec<PossibleValue> {
    let s_rl = PossibleValue::new(S_RL)
        .help("single agents (section 4.5): alone, put together at four loads, trained together");
    let team = simppo_experiments().map(|(name, asks)| PossibleValue::new(name).help(asks));
    std::iter::once(s_rl).chain(team).collect()
}

pub(crate) fn run(arguments: &ReproduceArguments) -> anyhow::Result<Ending> {
    use_threads(arguments.threads)?;
    match arguments.experiment.as_str() {
        S_RL => run_s_rl(arguments)?,
        name => run_team(name, arguments)?,
    }
    Ok(Ending::Done)
}

fn run_team(name: &str, arguments: &ReproduceArguments) -> anyhow::Result<()> {
    if let Some(episodes) = arguments.episodes {
        anyhow::bail!(
            "--episodes {episodes} is for s-rl; {name} has its own: use --quick for fewer"
        );
    }
    let mut options = SimppoOptions::new(arguments.quick);
    if let Some(seeds) = &arguments.seeds {
        options.seeds.clone_from(&seeds.0);
    }
    let finding = run_simppo(name, &options, &|what| say!("{what}"))?;
    let path =
        keep(arguments, &format!("reproduce-{}.json", name.replace('/', "-")), &json!(finding))?;
    match arguments.output {
        Output::Json => print(&format!("{:#}\n", json!(finding))),
        Output::Table => show_finding(&finding),
        output => finding.tables.iter().for_each(|table| print_records(output, &records(table))),
    }
    say!("figures in {}", path.display());
    Ok(())
}

fn show_finding(finding: &Finding) {
    for table in &finding.tables {
        say!("\n{}", table.title);
        print_records(Output::Table, &records(table));
    }
    for note in &finding.notes {
        say!("\n{note}");
    }
}

fn records(table: &Table) -> Vec<Value> {
    let record = |row: &Vec<_>| {
        let cells = table.columns.iter().zip(row);
        let cells = cells.map(|(name, cell)| (name.clone(), json!(format!("{cell}"))));
        Value::Object(cells.collect::<Map<_, _>>())
    };
    table.rows.iter().map(record).collect()
}

/// Writes the figures where they were asked for, or to a new file.
fn keep(arguments: &ReproduceArguments, name: &str, figures: &Value) -> anyhow::Result<PathBuf> {
    let path = match &arguments.out {
        Some(path) => path.clone(),
        None => RunFolder::next_free(Path::new("runs"), name),
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    write_atomically(&path, format!("{figures:#}\n").as_bytes())?;
    Ok(path)
}

fn run_s_rl(arguments: &ReproduceArguments) -> anyhow::Result<()> {
    let mut study = if arguments.quick { SrlStudy::quick() } else { SrlStudy::full() };
    if let Some(seeds) = &arguments.seeds {
        study.seeds.clone_from(&seeds.0);
    }
    if let Some(episodes) = arguments.episodes {
        study.episodes = episodes;
    }
    let result = study.run(&mut |what| say!("{what}"))?;
    let path = keep(arguments, "reproduce-s-rl.json", &json!(result))?;
    match arguments.output {
        Output::Json => print(&format!("{:#}\n", json!(result))),
        Output::Table => show(&result),
        output => print_records(output, &rows(&result)),
    }
    say!("figures in {}", path.display());
    Ok(())
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
