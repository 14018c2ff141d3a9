//! `homeostat-trajectories`: the program behind `homeostat trajectories` and
//! `homeostat bench trajectories`. It is a program of its own, since SQLite would add to the first
//! build of those who only simulate.
#![forbid(unsafe_code)]

mod bench;
mod collect;
mod output;

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use homeostat_trajectories::{
    Filter, Retention, Store, Trajectory, TrajectoryId, TrajectoryStore, export_csv,
    export_parquet, export_records, import_records, import_trajectories, open_store,
};
use serde_json::{Value, json};

use crate::output::{Output, print, print_record, print_records};

/// List, show, export, import and prune recorded decisions.
#[derive(Parser)]
#[command(
    name = "homeostat trajectories",
    bin_name = "homeostat trajectories",
    version,
    after_help = "Examples:\n  homeostat trajectories list --store shop.db --best 20\n  homeostat trajectories show 7 --store shop.db\n  homeostat trajectories export --store shop.db --format parquet --out shop.parquet\n  homeostat trajectories import shop.jsonl --store postgres://me@localhost/decisions\n  homeostat trajectories prune --store shop.db --older-than 30d --keep-best 20"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List trajectories and the mean and deviation of recent rewards.
    List(ListArguments),
    /// Show one trajectory with its transitions.
    Show(ShowArguments),
    /// Write trajectories as JSON lines, which `import` reads, or as a table (CSV, Parquet).
    Export(ExportArguments),
    /// Read JSON lines of `export`, or of the operator, into a store; prints each commit.
    Import(ImportArguments),
    /// Delete old trajectories.
    Prune(PruneArguments),
    /// Take episodes from operators over HTTP into a store, and offer them policies.
    Collect(collect::CollectArguments),
    /// Measure writing, reading and queries.
    Bench(bench::BenchArguments),
}

#[derive(Args)]
struct StoreOption {
    /// Trajectory store: a SQLite file, postgres://USER:PASSWORD@HOST/DATABASE, or
    /// influxdb://USER:PASSWORD@HOST:8086/DATABASE (influxdb+https:// with TLS).
    #[arg(
        long,
        value_name = "STORE",
        default_value = "trajectories.db",
        env = "HOMEOSTAT_TRAJECTORIES",
        hide_env_values = true
    )]
    store: String,
}

#[derive(Args)]
struct FilterOptions {
    /// Only trajectories of this workload.
    #[arg(long)]
    workload: Option<String>,
    /// Only trajectories in which this policy acted.
    #[arg(long)]
    policy: Option<String>,
}

#[derive(Args)]
struct ListArguments {
    #[command(flatten)]
    store: StoreOption,
    #[command(flatten)]
    filter: FilterOptions,
    /// Only the M ended trajectories with the highest mean reward, the best first.
    #[arg(long, value_name = "M", conflicts_with = "recent")]
    best: Option<usize>,
    /// Mean and deviation of the rewards of the latest N ended trajectories instead of a list.
    #[arg(long, value_name = "N")]
    recent: Option<usize>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Args)]
struct ShowArguments {
    /// Number of the trajectory.
    id: i64,
    #[command(flatten)]
    store: StoreOption,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Args)]
struct ExportArguments {
    #[command(flatten)]
    store: StoreOption,
    #[command(flatten)]
    filter: FilterOptions,
    /// Format of the file.
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// File to write; standard output without it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Everything, one JSON value in each line.
    Jsonl,
    /// A row for each transition; the trajectories must have one schema.
    Csv,
    /// The same for data tools, with the schema in its metadata.
    Parquet,
}

#[derive(Args)]
struct ImportArguments {
    /// File of JSON lines; - is standard input.
    file: PathBuf,
    #[command(flatten)]
    store: StoreOption,
    /// Transitions in a transaction of a SQLite file; servers take a trajectory in each.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
}

#[derive(Args)]
struct PruneArguments {
    #[command(flatten)]
    store: StoreOption,
    /// Delete trajectories recorded longer ago than this: a number with a unit, such as 90m, 12h or 30d.
    #[arg(long, value_name = "TIME", value_parser = milliseconds, required_unless_present = "keep_latest")]
    older_than: Option<i64>,
    /// Delete all but the latest N trajectories of each workload.
    #[arg(long, value_name = "N")]
    keep_latest: Option<u32>,
    /// Keep the best M ended trajectories of each workload in any case.
    #[arg(long, value_name = "M", default_value_t = 0)]
    keep_best: u32,
    /// Only say what would be deleted.
    #[arg(long)]
    dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::List(arguments) => list(&arguments),
        Command::Show(arguments) => show(&arguments),
        Command::Export(arguments) => export(&arguments),
        Command::Import(arguments) => import(&arguments),
        Command::Prune(arguments) => prune(&arguments),
        Command::Collect(arguments) => collect::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; nothing is left to write to.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn list(arguments: &ListArguments) -> anyhow::Result<()> {
    let mut store = arguments.store.open()?;
    let filter = arguments.filter.filter();
    if let Some(count) = arguments.recent {
        print_record(arguments.output, &json!(store.recent_rewards(&filter, count)?));
        return Ok(());
    }
    let found = match arguments.best {
        Some(count) => store.best(&filter, count)?,
        None => store.list(&filter)?,
    };
    print_records(arguments.output, &found.iter().map(record).collect::<Vec<_>>());
    Ok(())
}

fn show(arguments: &ShowArguments) -> anyhow::Result<()> {
    let mut store = arguments.store.open()?;
    let id = TrajectoryId::from(arguments.id);
    let trajectory = store.get(id)?;
    let mut transitions = Vec::new();
    store.transitions(id, &mut |transition| {
        transitions.push(json!(transition));
        Ok(())
    })?;
    if arguments.output == Output::Json {
        let mut whole = record(&trajectory);
        whole["schema"] = json!(store.origin(id)?.schema);
        whole["steps"] = transitions.into();
        print_record(Output::Json, &whole);
    } else {
        print_record(arguments.output, &record(&trajectory));
        print("\n");
        print_records(arguments.output, &transitions);
    }
    Ok(())
}

fn export(arguments: &ExportArguments) -> anyhow::Result<()> {
    let mut store = arguments.store.open()?;
    let filter = arguments.filter.filter();
    let mut to: Box<dyn Write + Send> = match &arguments.out {
        Some(path) => {
            let file = File::create_new(path);
            let hint =
                || format!("cannot create {}: name a file that does not exist", path.display());
            Box::new(BufWriter::new(file.with_context(hint)?))
        }
        None => Box::new(BufWriter::new(std::io::stdout())),
    };
    let count = match arguments.format {
        Format::Jsonl => export_records(store.as_mut(), &filter, &mut to)?,
        Format::Csv => export_csv(store.as_mut(), &filter, &mut to)?,
        Format::Parquet => export_parquet(store.as_mut(), &filter, &mut to)?,
    };
    to.flush()?;
    if arguments.out.is_some() {
        print(&format!("exported {count} transitions\n"));
    }
    Ok(())
}

fn import(arguments: &ImportArguments) -> anyhow::Result<()> {
    let mut from: Box<dyn BufRead> = if arguments.file.as_os_str() == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        let file = File::open(&arguments.file);
        let hint = || format!("cannot read {}", arguments.file.display());
        Box::new(BufReader::new(file.with_context(hint)?))
    };
    let mut committed = |count| print(&format!("committed {count} transitions\n"));
    let store = &arguments.store.store;
    let imported = if store.contains("://") {
        import_trajectories(open_store(store, true)?.as_mut(), &mut from, &mut committed)
    } else {
        let mut store = TrajectoryStore::open_or_create(Path::new(store))?;
        import_records(&mut store, &mut from, arguments.batch, &mut committed)
    };
    imported.with_context(|| arguments.file.display().to_string())?;
    Ok(())
}

fn prune(arguments: &PruneArguments) -> anyhow::Result<()> {
    let mut store = arguments.store.open()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let now_ms = i64::try_from(now.as_millis()).context("the clock is beyond all reason")?;
    let retention = Retention {
        recorded_before_ms: arguments.older_than.map(|age| now_ms.saturating_sub(age)),
        latest: arguments.keep_latest,
        best: arguments.keep_best,
    };
    let pruned = match arguments.dry_run {
        true => store.prunable(&retention)?,
        false => store.prune(&retention)?,
    };
    print_record(arguments.output, &json!(pruned));
    Ok(())
}

impl StoreOption {
    fn open(&self) -> anyhow::Result<Box<dyn Store>> {
        Ok(open_store(&self.store, false)?)
    }
}

impl FilterOptions {
    fn filter(&self) -> Filter {
        Filter { workload: self.workload.clone(), policy: self.policy.clone() }
    }
}

/// A trajectory for people and programs, with its mean reward.
fn record(trajectory: &Trajectory) -> Value {
    json!({
        "id": trajectory.id,
        "workload": trajectory.workload,
        "policy": trajectory.policy,
        "features": trajectory.features,
        "action": trajectory.action,
        "recorded_ms": trajectory.recorded_ms,
        "transitions": trajectory.transitions,
        "mean_reward": trajectory.mean_reward(),
        "end": trajectory.end,
    })
}

/// A time with a unit, in milliseconds.
fn milliseconds(text: &str) -> anyhow::Result<i64> {
    let units = [("s", 1_000.0), ("m", 60e3), ("h", 3600e3), ("d", 86_400e3)];
    let found = units.into_iter().find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, ms)));
    let Some((number, unit_ms)) = found else {
        bail!("a time needs a unit: s, m, h or d, as in 30d");
    };
    match number.parse::<f64>() {
        Ok(number) if (0.0..1e9).contains(&number) => Ok((number * unit_ms) as i64),
        _ => bail!("`{number}` is not a number from 0 to below 10^9"),
    }
}
