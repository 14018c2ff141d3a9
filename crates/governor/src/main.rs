//! `homeostat-governor`: the program behind `homeostat governor`. It is a program of its own, since NVML and
//! an HTTP server would add to the first build of those who only simulate.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use homeostat_governor::governor::DeviceGovernor;
use homeostat_governor::gpu::Gpu;
use homeostat_governor::http::HttpClient;
use homeostat_governor::lease::LeaseDirectory;
use homeostat_governor::nvml::Driver;
use homeostat_governor::restore::restore_all;
use homeostat_governor::run::{RunOptions, open_devices, run};
use homeostat_governor::settings::{DEFAULT, Settings};
use homeostat_governor::source::Source;
use homeostat_governor::status::Status;
use homeostat_governor::{DEFAULT_ADDRESS, DEFAULT_LEASE_DIRECTORY, check};
use tracing_subscriber::EnvFilter;

/// Lower the clocks of GPUs that serve models as far as their SLOs allow.
///
/// Every second the governor reads the latencies of the models, from the metrics of `homeostat
/// gateway` or from a Prometheus. If a model has too little slack, the part of its SLO that its latency
/// leaves, the clock limit of its GPUs is doubled; if all models of a GPU have more slack than a lower
/// clock costs, the limit is lowered by a step (MIAD). Without recent latencies the limit is held, then
/// raised to the highest clock.
///
/// It changes nothing without --act. With it, clocks are limited through NVML, which needs root, and
/// restored when the governor ends: on SIGTERM and Ctrl-C, after errors, and after `kill -9` by
/// `homeostat governor restore` or the next start.
#[derive(Parser)]
#[command(
    name = "homeostat governor",
    bin_name = "homeostat governor",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  homeostat governor check                              list GPUs, their clocks and permissions\n  homeostat governor settings > governor.toml           every setting with its default, commented\n  homeostat governor check --settings governor.toml     check a file against GPUs and the gateway\n  homeostat governor run --settings governor.toml       dry run: print what would be done\n  homeostat governor run --settings governor.toml --act\n  homeostat governor status                             clocks, latencies and reasons now\n  homeostat governor restore                            restore GPUs that a killed governor left\n\nDecisions are lines of JSON on standard output, with reasons. Metrics: http://127.0.0.1:9092/metrics.\nTo pause it, create the file pause_file of the settings. LOG=debug prints more."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Govern; without --act only say what would be done.
    Run(RunArguments),
    /// List GPUs with clocks and permissions, or check settings against them. Reads only.
    Check(CheckArguments),
    /// Show clocks, latencies and reasons of a running governor.
    Status(StatusArguments),
    /// Restore the GPUs of governors that were killed.
    Restore(RestoreArguments),
    /// Print all settings with their defaults, commented.
    Settings,
}

#[derive(Args)]
struct RunArguments {
    /// TOML file; `homeostat governor settings` prints one.
    #[arg(long, value_name = "FILE")]
    settings: PathBuf,
    /// Change clocks; without it nothing is changed.
    #[arg(long)]
    act: bool,
    /// Print every decision, not only those that differ from the one before.
    #[arg(long)]
    every_decision: bool,
}

#[derive(Args)]
struct CheckArguments {
    /// TOML file to check against the GPUs and the source of latencies.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Args)]
struct StatusArguments {
    /// TOML file with the address of the governor [default: 127.0.0.1:9092].
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Args)]
struct RestoreArguments {
    /// TOML file with the directory of leases.
    #[arg(long, value_name = "FILE", conflicts_with = "lease_directory")]
    settings: Option<PathBuf>,
    /// Directory of leases.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_LEASE_DIRECTORY)]
    lease_directory: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_env("LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let done = match arguments.command {
        Command::Run(arguments) => run_command(&arguments),
        Command::Check(arguments) => check_command(&arguments),
        Command::Status(arguments) => status_command(&arguments),
        Command::Restore(arguments) => restore_command(&arguments),
        Command::Settings => {
            print(DEFAULT);
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed; the error cannot be reported then.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a text. A reader that has gone away is no failure.
fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn read(file: &Path) -> anyhow::Result<Settings> {
    Settings::read(file).with_context(|| format!("cannot use {}", file.display()))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    // One thread answers scrapers while the loop waits for a driver.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.context("cannot start threads")
}

fn run_command(arguments: &RunArguments) -> anyhow::Result<()> {
    let settings = read(&arguments.settings)?;
    let options = RunOptions { act: arguments.act, every_decision: arguments.every_decision };
    runtime()?.block_on(run(&settings, options))
}

fn check_command(arguments: &CheckArguments) -> anyhow::Result<()> {
    let settings = arguments.settings.as_deref().map(read).transpose()?;
    let driver = Driver::open()?;
    let findings = check::find(&driver)?;
    match arguments.output {
        Output::Table => print(&findings.text()),
        Output::Json => print(&format!("{}\n", serde_json::to_string_pretty(&findings)?)),
    }
    let Some(settings) = settings else { return Ok(()) };
    for (device, gpu) in open_devices(&settings.devices, &driver)? {
        let uuid = gpu.uuid().to_owned();
        DeviceGovernor::new(gpu, device, &settings)
            .with_context(|| format!("cannot govern {uuid}"))?;
    }
    runtime()?.block_on(check_source(&settings))?;
    print("settings: no errors\n");
    Ok(())
}

/// Reads latencies once, and warns of models without any.
async fn check_source(settings: &Settings) -> anyhow::Result<()> {
    let source = Source::new(&settings.source, &settings.objectives);
    source.read(&settings.objectives).await.map_err(anyhow::Error::msg)?;
    for objective in &settings.objectives {
        let known = source.models(objective).await.map_err(anyhow::Error::msg)?;
        if let Some(known) = known.filter(|known| !known.contains(&objective.model)) {
            let known = if known.is_empty() { "none so far".to_owned() } else { known.join(", ") };
            print(&format!(
                "warning: {} has no requests of {}: misspelt, or none finished yet; it has {known}\n",
                objective.metric, objective.model
            ));
        }
    }
    Ok(())
}

fn status_command(arguments: &StatusArguments) -> anyhow::Result<()> {
    let address = match &arguments.settings {
        Some(file) => read(file)?.address,
        None => DEFAULT_ADDRESS,
    };
    let url = format!("http://{address}/status").parse().context("no address")?;
    let client = HttpClient::new(Duration::from_secs(5), false);
    let text = runtime()?.block_on(client.get(&url)).map_err(|error| {
        anyhow::anyhow!("no governor answers: {error}; start one with `homeostat governor run`, or name its file with --settings")
    })?;
    if text.is_empty() {
        bail!("the governor has not made a decision yet: try again in a second");
    }
    let status: Status = serde_json::from_str(&text).context("this is no governor's status")?;
    match arguments.output {
        Output::Table => print(&status.text()),
        Output::Json => print(&format!("{}\n", serde_json::to_string_pretty(&status)?)),
    }
    Ok(())
}

fn restore_command(arguments: &RestoreArguments) -> anyhow::Result<()> {
    let directory = match &arguments.settings {
        Some(file) => read(file)?.lease_directory,
        None => arguments.lease_directory.clone(),
    };
    let leases = LeaseDirectory(directory);
    if leases.devices()?.is_empty() {
        print("nothing to restore\n");
        return Ok(());
    }
    let driver = Driver::open()?;
    let mut gpus: Vec<_> = driver.gpus()?.into_iter().filter_map(Result::ok).collect();
    let mut failures = 0;
    for (uuid, restored) in restore_all(&leases, &mut gpus)? {
        match restored {
            Ok(restored) => print(&format!("{uuid}: {restored}\n")),
            Err(error) => {
                failures += 1;
                let _ = writeln!(std::io::stderr(), "error: {error}");
            }
        }
    }
    if failures > 0 {
        bail!("{failures} devices are not restored");
    }
    Ok(())
}
