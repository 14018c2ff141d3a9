//! `homeostat sim` and `homeostat replay`.

use std::path::{Path, PathBuf};

use clap::Args;
use homeostat_core::SimDuration;
use homeostat_decide::SimulatedSystem;
use homeostat_lab::{
    Error, FormerPercentage, RunConfig, RunDirectory, Settings, Threshold, UserLayers,
    with_former_percentages,
};
use homeostat_rl::Sampling;
use homeostat_simulate::{
    FinishedSimulation, PreparedSimulation, SLO_OVER_MEAN, Simulation, SimulationFacts,
    SimulationRequest, TraceFiles, run_simulation, windows_file_name,
};
use serde_json::{Value, json};

use super::sim_measured;
use crate::Ending;
use crate::commands::train::{crossed, figure_names, parse_thresholds};
use crate::options::{
    SeedList, SettingOptions, duration, environments, key_and_value, use_threads,
};
use crate::output::{Output, in_percent, print_record, print_records};
use crate::progress::{CountView, thousands};

/// Run policies of autoscaling, of five resources of containers, or of GPU clocks in the simulator.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat sim faas --policy hpa+vpa\n  homeostat sim faas --policy ensure --duration 1h --seeds 1..5 --set faas.cores_per_node=5\n  homeostat sim faas --policy runs/ppo-function-v2-seed1 --alone\n  homeostat sim faas --policy on-demand --trace invocations.csv --duration 2h\n  homeostat sim deploy --policy hpa+vpa --duration 1h --set deploy.change=load\n  homeostat sim gpu --policy miad --seeds 1..5 --load bursty\n  homeostat sim mesh --policy aimd --set mesh.topology=train-ticket --per-function\n  homeostat sim mesh --policy runs/ddpg-container-v1-seed1 --campaign anomalies.toml\n  homeostat sim faas --policy kpa --fail-if 'slo_violation_ratio > 0.05'   exit 99 if so"
)]
pub(crate) struct SimArguments {
    /// Simulator, the first part of its environments' ids: faas is a serverless platform, deploy a
    /// Kubernetes cluster with Deployments, gpu a few devices that serve models, mesh an application of
    /// microservices with injected anomalies.
    pub(super) simulator: String,
    /// Autoscaling policy: hpa, vpa, hpa+vpa, joint (the operator's default), kpa, ensure, ensure-util, aimd, staffing, short-first,
    /// on-demand, none, random, a run directory or a .policy file. Governors of clocks, for gpu: miad, miad-printed (Alg. 6.3
    /// as printed), none, random. Limits of five resources, for mesh: aimd, hpa, vpa, hpa+vpa, none, random, a run
    /// directory or a .policy file.
    #[arg(long, value_name = "POLICY")]
    pub(super) policy: String,
    /// Load: fluctuating, poisson, diurnal, bursty or spike for faas, azure-high, azure-low or poisson
    /// for deploy, fluctuating, poisson, bursty or spike for gpu, poisson, diurnal or bursty for mesh; short for
    /// --set SIMULATOR.load=... [default: fluctuating, azure-high for deploy, poisson for mesh]
    #[arg(long, conflicts_with = "trace")]
    load: Option<String>,
    /// Requests of functions, in the format of the Azure Functions trace of 2019 (requests per minute) or
    /// 2021 (invocations); plain, .zst, .gz or .zip.
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Run times of the trace's functions [default: those of its invocations, or drawn from a model of the
    /// Azure trace]
    #[arg(long, value_name = "FILE", requires = "trace")]
    durations: Option<PathBuf>,
    /// Memory of the trace's functions [default: drawn from a model of the Azure trace]
    #[arg(long, value_name = "FILE", requires = "trace")]
    memory: Option<PathBuf>,
    /// Nodes of the cluster that a trace is played on [default: as many as its busiest minute fills to 70 %]
    #[arg(long, requires = "trace", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: Option<u32>,
    /// SLO of each function of a trace, as a multiple of its mean run time
    #[arg(long, value_name = "FACTOR", requires = "trace", value_parser = slo_factor, default_value_t = SLO_OVER_MEAN)]
    slo: f64,
    /// Anomalies to inject, with their types, places and times (mesh only); the chapter on a simulated application
    /// shows the file [default: at random times into all services, as mesh.anomalies_per_s says]
    #[arg(long, value_name = "FILE")]
    pub(super) campaign: Option<PathBuf>,
    /// Simulated time: seconds, or a number with a unit, such as 90s, 20m, 2h or 1d [default: 500s, or all of
    /// a shorter trace]
    #[arg(long, value_parser = duration)]
    pub(super) duration: Option<SimDuration>,
    /// Simulate each function on its own platform.
    #[arg(long, conflicts_with = "trace")]
    pub(super) alone: bool,
    /// Seeds: one number, a list such as 1,4,9, or an inclusive range such as 1..5.
    #[arg(long, default_value = "1", value_name = "SEEDS")]
    pub(super) seeds: SeedList,
    /// Settings file in TOML; `homeostat config default` prints a commented one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A setting of the simulator, such as faas.cores_per_node=5; repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    pub(super) play: PlayOptions,
}

/// How to play, and what to show of it.
#[derive(Args)]
pub(super) struct PlayOptions {
    /// Sample the actions of a learned policy instead of taking the most probable.
    #[arg(long)]
    pub(super) stochastic: bool,
    /// Run directory [default: a new one under runs/]
    #[arg(long, value_name = "DIR")]
    pub(super) run_dir: Option<PathBuf>,
    /// Write every decision of every seed to decisions.jsonl in the run directory, for `homeostat learn` and
    /// `homeostat trajectories import`.
    #[arg(long)]
    pub(super) record: bool,
    /// Print one row per function, device or service instead of the summary.
    #[arg(long)]
    pub(super) per_function: bool,
    /// Exit with code 99 if the summary crosses this threshold, for example 'slo_violation_ratio > 0.05'; repeatable.
    #[arg(long, value_name = "CONDITION")]
    pub(super) fail_if: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub(super) output: Output,
    /// Worker threads; results do not depend on the number [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
    /// Print only the result, no progress.
    #[arg(long, short)]
    pub(super) quiet: bool,
}

impl PlayOptions {
    pub(super) fn sampling(&self) -> Sampling {
        if self.stochastic { Sampling::Stochastic } else { Sampling::Greedy }
    }

    /// What `--fail-if` asks for.
    fn thresholds(&self) -> anyhow::Result<Vec<Threshold>> {
        let blank = with_former_percentages(FinishedSimulation::blank().summary(), &FORMER);
        parse_thresholds(&self.fail_if, &figure_names(&blank))
    }
}

/// The percentages that records of 0.1.0 had.
const FORMER: [FormerPercentage; 2] = [
    FormerPercentage { new: "slo_violation_ratio", old: "miss_pct" },
    FormerPercentage { new: "slo_violation_ratio_interval", old: "miss_interval" },
];

/// Repeat a simulation with another policy: the same functions, requests and seeds.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  homeostat replay runs/sim-hpa+vpa --policy ensure\n  homeostat replay runs/sim-hpa+vpa --policy runs/ppo-function-v2-seed1\n\nTo replay the history of a workload on Kubernetes:\n  homeostat replay --prometheus URL --last 7d deploy/NAME\n  homeostat replay --prometheus URL --help"
)]
pub(crate) struct ReplayArguments {
    /// Run directory of a simulation.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Autoscaling policy to use instead; see `homeostat sim --help`.
    #[arg(long, value_name = "POLICY")]
    policy: String,
    #[command(flatten)]
    play: PlayOptions,
}

pub(crate) fn run(arguments: &SimArguments) -> anyhow::Result<Ending> {
    let SimArguments { simulator, play, trace, .. } = arguments;
    use_threads(play.threads)?;
    let mut set = arguments.set.clone();
    refuse_other_settings(simulator, &set)?;
    set.extend(arguments.load.iter().map(|load| format!("{simulator}.load={load}")));
    let options = SettingOptions {
        env: Some(environments().plants(simulator)?.env().to_owned()),
        config: arguments.config.clone(),
        set,
        ..SettingOptions::default()
    };
    let config = options.resolve()?.validate()?;
    match config.env_factory.system(simulator)? {
        SimulatedSystem::GpuClocks(system) => {
            return sim_measured::run(system, arguments, &config);
        }
        SimulatedSystem::Containers(system) => {
            return sim_measured::run(system, arguments, &config);
        }
        SimulatedSystem::Pods(_) => {
            let message = "--campaign applies to mesh: nothing can be injected into pods";
            anyhow::ensure!(arguments.campaign.is_none(), "{message}");
        }
    }
    let thresholds = play.thresholds()?;
    // Whole paths, so that the run can be played again from anywhere.
    let whole = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let files = trace.as_ref().map(|counts| TraceFiles {
        counts: whole(counts),
        durations: arguments.durations.as_ref().map(whole),
        memory: arguments.memory.as_ref().map(whole),
    });
    let request = SimulationRequest {
        policy: arguments.policy.clone(),
        sampling: play.sampling(),
        files,
        nodes: arguments.nodes.map(|nodes| nodes as usize),
        slo_over_mean: arguments.slo,
        alone: arguments.alone,
        duration: arguments.duration,
        may_outlast_trace: false,
        seeds: arguments.seeds.0.clone(),
    };
    let finished = play_request(&request, config, play)?;
    show(&[&finished], play)?;
    finish(&finished, &thresholds)
}

/// A setting of an algorithm would change nothing here.
fn refuse_other_settings(simulator: &str, set: &[String]) -> anyhow::Result<()> {
    for pair in set {
        let (key, _) = key_and_value(pair)?;
        if !key.starts_with(&format!("{simulator}.")) {
            return Err(Error::Unreadable {
                source_text: format!("flag --set {key}"),
                reason: format!(
                    "a simulation does not read it: its settings start with `{simulator}.`"
                ),
            }
            .into());
        }
    }
    Ok(())
}

/// Plays a recorded simulation with another policy.
pub(crate) fn replay(arguments: &ReplayArguments) -> anyhow::Result<Ending> {
    let play = &arguments.play;
    let thresholds = play.thresholds()?;
    use_threads(play.threads)?;
    let before = FinishedSimulation::open(&arguments.run)?;
    let facts = &before.facts;
    let settings = recorded_settings(&arguments.run)?;
    let request = SimulationRequest {
        policy: arguments.policy.clone(),
        sampling: play.sampling(),
        files: facts.trace.clone(),
        nodes: facts.nodes,
        slo_over_mean: facts.slo_over_mean.unwrap_or(SLO_OVER_MEAN),
        alone: facts.scenario == "alone",
        duration: Some(SimDuration::from_seconds(facts.duration_s).map_err(Error::from)?),
        may_outlast_trace: true,
        seeds: facts.seeds.clone(),
    };
    let finished = play_request(&request, settings.validate()?, play)?;
    show(&[&before, &finished], play)?;
    finish(&finished, &thresholds)
}

/// The settings that a run was played with.
fn recorded_settings(run: &Path) -> anyhow::Result<Settings> {
    let directory = RunDirectory::open(run)?;
    let text = String::from_utf8_lossy(&directory.read("config.toml")?).into_owned();
    let name = directory.file("config.toml").display().to_string();
    Ok(Settings::resolve(&environments(), &UserLayers::of_file(name, text))?)
}

/// Plays what was asked for, with its progress on the terminal.
fn play_request(
    request: &SimulationRequest,
    config: RunConfig,
    play: &PlayOptions,
) -> anyhow::Result<FinishedSimulation> {
    let PreparedSimulation { simulation, facts, config, cluster } = request.prepare(config)?;
    let facts = SimulationFacts { recorded: play.record, ..facts };
    let name = format!("sim-{}", facts.policy);
    let path =
        play.run_dir.clone().unwrap_or_else(|| RunDirectory::next_free(Path::new("runs"), &name));
    if !play.quiet {
        say!(
            "simulating {} on {} targets, {} ({}), {} of {}, into {}",
            facts.policy,
            facts.functions,
            facts.scenario,
            facts.load,
            match facts.seeds.len() {
                1 => "1 seed".to_owned(),
                count => format!("{count} seeds"),
            },
            simulation.played(),
            path.display()
        );
        if let Some(cluster) = &cluster {
            say!("cluster: {cluster}");
        }
        let lines = simulation.windows() * facts.functions as u64;
        if windows_file_name(lines).ends_with(".gz") {
            let lines = thousands(lines as f64);
            say!("windows.jsonl.gz gets {lines} lines, packed; zcat reads it");
        }
    }
    play_watched(&simulation, &facts, &config, &path, play.quiet)
}

/// Plays a simulation with its progress on the terminal.
pub(crate) fn play_watched(
    simulation: &Simulation,
    facts: &SimulationFacts,
    config: &RunConfig,
    path: &Path,
    quiet: bool,
) -> anyhow::Result<FinishedSimulation> {
    let view = CountView::new("windows", quiet)?;
    let finished = run_simulation(
        simulation,
        facts,
        &config.toml,
        path,
        &|done, total| view.show(done, total),
        view.interruption(),
    )?;
    view.finish();
    Ok(finished)
}

fn show(runs: &[&FinishedSimulation], play: &PlayOptions) -> anyhow::Result<()> {
    let for_output = |record: Value| match play.output {
        Output::Table => in_percent(record),
        Output::Json | Output::Csv => with_former_percentages(record, &FORMER),
    };
    if play.per_function {
        let records = runs.iter().flat_map(|run| function_records(run)).map(for_output);
        print_records(play.output, &records.collect::<Vec<_>>());
        return Ok(());
    }
    let records: Vec<Value> = runs.iter().map(|run| for_output(run.summary())).collect();
    match records.as_slice() {
        [only] => print_record(play.output, only),
        several => print_records(play.output, several),
    }
    Ok(())
}

fn finish(run: &FinishedSimulation, thresholds: &[Threshold]) -> anyhow::Result<Ending> {
    if let Some(outcome) = run.outcomes.iter().find(|outcome| outcome.total.requests == 0) {
        let what = format!("no request was played with seed {}", outcome.seed);
        // A check on nothing would always pass.
        anyhow::ensure!(thresholds.is_empty(), "{what}: --fail-if has nothing to check");
        say!("warning: {what}");
    }
    let without_room = run.functions_without_room();
    if without_room > 0 {
        say!(
            "warning: {without_room} of {} functions had requests and never a container: the nodes have no \
             room for them{}",
            run.facts.functions,
            run.facts.nodes.map_or(String::new(), |nodes| format!("; there are --nodes {nodes}"))
        );
    }
    crossed(thresholds, &with_former_percentages(run.summary(), &FORMER))
}

/// An SLO over the mean run time of a function.
fn slo_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (1.0..=1000.0).contains(factor));
    factor.ok_or_else(|| format!("`{text}` is not a number from 1 to 1000"))
}

/// Means over seeds of each function.
fn function_records(run: &FinishedSimulation) -> Vec<Value> {
    let first = &run.outcomes[0].functions;
    let records = first.iter().enumerate().map(|(place, function)| {
        let mean = |figure: &dyn Fn(&homeostat_simulate::Figures) -> f64| {
            let of = |outcome: &homeostat_simulate::SimulationOutcome| {
                figure(&outcome.functions[place].figures)
            };
            run.outcomes.iter().map(of).sum::<f64>() / run.outcomes.len() as f64
        };
        json!({
            "policy": run.facts.policy,
            "function": function.name,
            "requests": mean(&|figures| figures.requests as f64).round(),
            "slo_ms": function.slo_ms,
            "p99_ms": mean(&|figures| figures.p99_ms.unwrap_or(0.0)),
            "slo_violation_ratio": mean(&|figures| figures.slo_violation_ratio),
            "preservation": mean(&|figures| figures.preservation),
            "cpu_utilisation": mean(&|figures| figures.cpu_utilisation),
            "memory_utilisation": mean(&|figures| figures.memory_utilisation),
            "container_s": mean(&|figures| figures.container_s),
            "memory_gib_s": mean(&|figures| figures.memory_gib_s),
            "oom_kills": mean(&|figures| figures.oom_kills as f64),
        })
    });
    records.collect()
}
