//! `homeostat gpu`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use homeostat_core::SeedTree;
use homeostat_lab::write_atomically;
use homeostat_placement::{
    CLUSTER_EXAMPLE, Cluster, Expectation, MODELS_EXAMPLE, Measurement, Method, Plan, Planner,
    PlannerConfig, SensitivityDatabase, Workload,
};
use serde_json::{Value, json};

use crate::Ending;
use crate::commands::operator::{self, HandedOn};
use crate::output::{Output, print, print_record, print_records};

#[derive(Subcommand)]
pub(crate) enum GpuCommand {
    /// Plan which devices serve which parts of which model, with the least power that keeps the SLOs.
    Plan(PlanArguments),
    /// Print a commented example of the files that `plan` reads.
    Settings {
        /// Which example.
        file: ExampleFile,
    },
    /// Measure operators on a GPU of this machine, at the clocks that it has.
    Profile(HandedOn),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExampleFile {
    /// The models and their load.
    Models,
    /// The devices.
    Cluster,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodName {
    /// The least power that keeps the attainment: devices are shared by partitions of similar sensitivity.
    MuServe,
    /// The highest attainment, whatever the power.
    Alpaserve,
    /// Models in turn on groups of devices in turn.
    RoundRobin,
    /// Models on random groups of devices.
    Random,
}

/// Plan which devices serve which parts of which model, with the least power that keeps the SLOs.
///
/// The planner divides models into partitions, the cluster into groups, and simulates the placements that it
/// compares. It prints where each partition runs and why, the part of requests within the SLO, the power,
/// and the fixed clocks with the least power that keep that part. Nothing is deployed.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat gpu settings models > models.toml        the models and their load, commented\n  homeostat gpu settings cluster > cluster.toml      the devices, of one type or several\n  homeostat gpu plan models.toml cluster.toml\n  homeostat gpu plan models.toml cluster.toml --method alpaserve --output json\n  homeostat gpu plan models.toml cluster.toml --sensitivity measured.csv\n\nMeasured operators are CSV with the columns device, operator, flops, bytes, clock_mhz and time_ms, or JSON as\n`homeostat gpu profile --output json` prints it, at two clocks or more. Without them, sensitivities are computed\nfrom the device types."
)]
pub(crate) struct PlanArguments {
    /// TOML file with the models; `homeostat gpu settings models` prints one.
    models: PathBuf,
    /// TOML file with the devices; `homeostat gpu settings cluster` prints one.
    cluster: PathBuf,
    /// Placement method.
    #[arg(long, value_enum, default_value = "mu-serve")]
    method: MethodName,
    /// SLO over the time of a mean request alone, instead of the slo_scale of the models file.
    #[arg(long, allow_negative_numbers = true)]
    slo_scale: Option<f64>,
    /// Part of the requests that must be within their SLO, from 0 to 1.
    #[arg(long, default_value_t = PlannerConfig::default().attainment, allow_negative_numbers = true)]
    attainment: f64,
    /// Difference of sensitivity from which on neighbouring operators are in different clusters.
    #[arg(long, default_value_t = PlannerConfig::default().cluster_threshold, allow_negative_numbers = true)]
    cluster_threshold: f64,
    /// Difference of sensitivity up to which partitions may share a device.
    #[arg(long, default_value_t = PlannerConfig::default().similarity_threshold, allow_negative_numbers = true)]
    similarity_threshold: f64,
    /// Most devices for the partitions of one copy of a model [default: all numbers are tried]
    #[arg(long, value_name = "N")]
    max_devices_per_copy: Option<usize>,
    /// File with measured operators or saved sensitivities; may be repeated.
    #[arg(long, value_name = "FILE")]
    sensitivity: Vec<PathBuf>,
    /// Write the sensitivities that were used to this file.
    #[arg(long, value_name = "FILE")]
    save_sensitivity: Option<PathBuf>,
    /// Seed of the simulated requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(command: &GpuCommand) -> anyhow::Result<Ending> {
    match command {
        GpuCommand::Plan(arguments) => plan(arguments),
        GpuCommand::Settings { file } => {
            print(match file {
                ExampleFile::Models => MODELS_EXAMPLE,
                ExampleFile::Cluster => CLUSTER_EXAMPLE,
            });
            Ok(Ending::Done)
        }
        GpuCommand::Profile(handed_on) => operator::run_gpu_profile(handed_on),
    }
}

fn plan(arguments: &PlanArguments) -> anyhow::Result<Ending> {
    let cluster = Cluster::read(&read(&arguments.cluster, "homeostat gpu settings cluster")?)
        .with_context(|| format!("cannot use {}", arguments.cluster.display()))?;
    let models = read(&arguments.models, "homeostat gpu settings models")?;
    let workload = Workload::read(&models, &cluster, arguments.slo_scale)
        .with_context(|| format!("cannot use {}", arguments.models.display()))?;
    let database = match arguments.sensitivity.is_empty() {
        true => SensitivityDatabase::computed(&cluster, &workload),
        false => read_sensitivity(&arguments.sensitivity)?,
    };
    if let Some(path) = &arguments.save_sensitivity {
        write_atomically(path, database.to_json().as_bytes())?;
    }
    let config = PlannerConfig {
        attainment: arguments.attainment,
        cluster_threshold: arguments.cluster_threshold,
        similarity_threshold: arguments.similarity_threshold,
        max_devices_per_copy: arguments.max_devices_per_copy,
        ..PlannerConfig::default()
    };
    say!("dividing {} models", workload.models.len());
    let planner = Planner::new(cluster, workload, Some(database), config)?;
    let method = match arguments.method {
        MethodName::MuServe => Method::MuServe,
        MethodName::Alpaserve => Method::AlpaServe,
        MethodName::RoundRobin => Method::RoundRobin,
        MethodName::Random => Method::Random,
    };
    let seeds = SeedTree::new(arguments.seed).child("placement");
    let plan = planner.plan(method, &seeds, &mut |what| say!("{what}"))?;
    match arguments.output {
        Output::Json => print_record(Output::Json, &as_json(&planner, &plan)),
        Output::Csv => print_records(Output::Csv, &partitions(&plan)),
        Output::Table => print_tables(&planner, &plan),
    }
    Ok(Ending::Done)
}

fn read(path: &Path, example: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| {
        format!("failed to read {} (`{example}` prints an example)", path.display())
    })
}

/// Measurements of several files are one database: each may have been taken at another clock.
fn read_sensitivity(paths: &[PathBuf]) -> anyhow::Result<SensitivityDatabase> {
    let mut database = SensitivityDatabase::default();
    let mut measurements = Vec::new();
    for path in paths {
        let text = read(path, "homeostat gpu plan --help")?;
        let failed = || format!("cannot use {}", path.display());
        let is_saved =
            serde_json::from_str::<Value>(&text).is_ok_and(|value| value.get("entries").is_some());
        if is_saved {
            let saved = SensitivityDatabase::from_json(&text).with_context(failed)?;
            database.entries.extend(saved.entries);
        } else {
            measurements.extend(Measurement::read(&text).with_context(failed)?);
        }
    }
    let measured = SensitivityDatabase::from_measurements(&measurements)
        .context("cannot use the measurements of --sensitivity")?;
    database.entries.extend(measured.entries);
    Ok(database)
}

fn partitions(plan: &Plan) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut copies = vec![0; plan.model_names.len()];
    for copy in &plan.copies {
        copies[copy.model] += 1;
        for (place, partition) in copy.partitions.iter().enumerate() {
            rows.push(json!({
                "model": plan.model_names[copy.model],
                "copy": copies[copy.model],
                "partition": place + 1,
                "first_operator": partition.operators.0,
                "last_operator": partition.operators.1,
                "weights_gib": partition.weights_gib,
                "score": partition.score,
                "devices": plan.set_name(partition.set),
                "clock_mhz": plan.clocks[partition.set],
            }));
        }
    }
    rows
}

fn device_sets(plan: &Plan) -> Vec<Value> {
    let row = |set: usize| {
        json!({
            "devices": plan.set_name(set),
            "clock_mhz": plan.clocks[set],
            "busy": plan.at_planned_clocks.busy[set],
            "power_w": plan.at_planned_clocks.set_w[set],
            "power_at_highest_clock_w": plan.at_highest_clocks.set_w[set],
        })
    };
    (0..plan.clocks.len()).map(row).collect()
}

fn models(planner: &Planner, plan: &Plan) -> Vec<Value> {
    let row = |(model, demand): (usize, &homeostat_placement::ModelDemand)| {
        let outcome = plan.at_planned_clocks.models[model];
        json!({
            "model": demand.name,
            "architecture": demand.model.name,
            "rate": demand.rate,
            "slo_ms": demand.slo.seconds() * 1e3,
            "copies": plan.copies.iter().filter(|copy| copy.model == model).count(),
            "requests": outcome.requests,
            "attainment_ratio": outcome.attainment(),
        })
    };
    planner.workload().models.iter().enumerate().map(row).collect()
}

fn expected(expectation: &Expectation) -> Value {
    json!({ "attainment_ratio": expectation.attainment, "power_w": expectation.power_w })
}

fn as_json(planner: &Planner, plan: &Plan) -> Value {
    let alternatives: Vec<Value> = plan
        .alternatives
        .iter()
        .map(|one| {
            json!({
                "what": one.what,
                "attainment_ratio": one.attainment,
                "power_w": one.power_w,
                "is_chosen": one.is_chosen,
            })
        })
        .collect();
    json!({
        "method": plan.method.name(),
        "wanted_attainment_ratio": plan.wanted_attainment,
        "at_planned_clocks": expected(&plan.at_planned_clocks),
        "at_highest_clocks": expected(&plan.at_highest_clocks),
        "unplaced": plan.unplaced.iter().map(|model| &plan.model_names[*model]).collect::<Vec<_>>(),
        "models": models(planner, plan),
        "partitions": partitions(plan),
        "device_sets": device_sets(plan),
        "alternatives": alternatives,
        "reasons": plan.reasons(),
    })
}

fn print_tables(planner: &Planner, plan: &Plan) {
    print_records(Output::Table, &partitions(plan));
    print("\n");
    print_records(Output::Table, &models(planner, plan));
    print("\n");
    print_records(Output::Table, &device_sets(plan));
    let line = |what: &str, expectation: &Expectation| {
        let (percent, power_w) = (100.0 * expectation.attainment, expectation.power_w);
        print(&format!("{what}  {percent:.2} % of requests within the SLO, {power_w:.0} W\n"));
    };
    print("\nExpected, on requests that the search has not seen:\n");
    line("  at the highest clocks", &plan.at_highest_clocks);
    line("  at the clocks above  ", &plan.at_planned_clocks);
    print("\nWhy:\n");
    for reason in plan.reasons() {
        print(&format!("  {reason}\n"));
    }
}
