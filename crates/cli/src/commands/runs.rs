//! `homeostat runs`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use homeostat_simulate::FinishedSimulation;
use serde_json::{Value, json};

use crate::Ending;
use crate::output::{Output, in_percent, print_records};

/// List runs.
#[derive(Subcommand)]
pub(crate) enum RunsCommand {
    /// List the runs below a directory with their results.
    List(ListArguments),
}

#[derive(Args)]
#[command(
    after_help = "A run is `finished`, `interrupted`, `unfinished` (running, or killed before its end) or `damaged`.\n\nExamples:\n  homeostat runs list\n  homeostat runs list experiments --output json"
)]
pub(crate) struct ListArguments {
    /// Directory to search, with those below it.
    #[arg(value_name = "DIR", default_value = "runs")]
    directory: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

/// Directories below the given one, at most.
const MAX_DEPTH: usize = 4;

pub(crate) fn run(command: &RunsCommand) -> anyhow::Result<Ending> {
    let RunsCommand::List(arguments) = command;
    let directory = &arguments.directory;
    if !directory.is_dir() {
        anyhow::bail!(
            "there is no directory {}: `homeostat train` and `homeostat sim` write runs/, or name another",
            directory.display()
        );
    }
    let mut paths = Vec::new();
    find(directory, MAX_DEPTH, &mut paths)?;
    paths.sort();
    let records: Vec<Value> = paths.iter().map(|path| record(path)).collect();
    if records.is_empty() {
        say!("no runs in {}", directory.display());
    }
    match arguments.output {
        Output::Table => {
            let records: Vec<Value> = records.into_iter().map(in_percent).collect();
            print_records(Output::Table, &records);
        }
        output => print_records(output, &records),
    }
    Ok(Ending::Done)
}

/// Run directories; what lies inside of one is a part of it.
fn find(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if directory.join("run.json").is_file() {
        found.push(directory.to_owned());
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    let failed = || format!("failed to read {}", directory.display());
    for entry in std::fs::read_dir(directory).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        // A link may lead back to where it is.
        if entry.file_type().with_context(failed)?.is_dir() {
            find(&entry.path(), depth - 1, found)?;
        }
    }
    Ok(())
}

/// One run as a row; what cannot be read is a row, too.
fn record(path: &Path) -> Value {
    let facts = read_json(&path.join("run.json"));
    let is_simulation = facts.as_ref().is_some_and(|facts| facts["kind"] == "simulation");
    let (kind, figures) = match &facts {
        Some(_) if is_simulation => ("simulation", simulation(path)),
        Some(facts) if facts["algorithm"].is_string() => ("training", training(path)),
        _ => ("-", json!({ "status": "damaged" })),
    };
    let facts = facts.unwrap_or_default();
    let (policy, on) = match is_simulation {
        true => (&facts["policy"], &facts["scenario"]),
        false => (&facts["algorithm"], &facts["env"]),
    };
    let seeds = match &facts["seeds"] {
        Value::Array(seeds) => seeds.iter().map(Value::to_string).collect::<Vec<_>>().join(" "),
        _ => facts["seed"].to_string(),
    };
    json!({
        "run": path.display().to_string(),
        "kind": kind,
        "policy": policy,
        "environment": on,
        "seeds": seeds,
        "status": figures["status"],
        "return_mean": figures["return_mean"],
        "slo_violation_ratio": figures["slo_violation_ratio"],
        "containers": figures["containers"],
    })
}

fn training(path: &Path) -> Value {
    let summary = path.join("summary.json");
    match (summary.exists(), read_json(&summary)) {
        (false, _) => json!({ "status": "unfinished" }),
        (true, Some(summary)) => summary,
        (true, None) => json!({ "status": "damaged" }),
    }
}

fn simulation(path: &Path) -> Value {
    if !path.join("summary.json").exists() {
        return json!({ "status": "unfinished" });
    }
    match FinishedSimulation::open(path) {
        Ok(run) => {
            let summary = run.summary();
            let container_s = summary["container_s"].as_f64().unwrap_or(0.0);
            json!({
                "status": "finished",
                "slo_violation_ratio": summary["slo_violation_ratio"],
                "containers": container_s / run.facts.duration_s.max(f64::MIN_POSITIVE),
            })
        }
        Err(_) => json!({ "status": "damaged" }),
    }
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}
