//! `operator`, `explain`, `history`, `recommend`, `replay --prometheus`, `bench operator`, `trajectories`,
//! `bench trajectories`, `gateway`, `governor`, `gpu profile`, `learn` and `evaluate-offline`: handed on to programs
//! of their own, so that simulating needs no Kubernetes client, no SQLite and no HTTP server.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;

use crate::Ending;

const PROGRAM: &str = "homeostat-operator";
const BENCH: &str = "operator-bench";
const TRAJECTORIES: &str = "homeostat-trajectories";
const GATEWAY: &str = "homeostat-gateway";
const GOVERNOR: &str = "homeostat-governor";
const GPU_PROFILE: &str = "homeostat-gpu-profile";
const LEARN: &str = "homeostat-learn";

/// Arguments of a command of another program; it explains them itself.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct HandedOn {
    /// Arguments of the command; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

impl HandedOn {
    /// The arguments of `replay` if they name a Prometheus: then the past of a cluster is meant,
    /// and no recorded simulation.
    pub(crate) fn replay_of_a_cluster() -> Option<Self> {
        let mut arguments = std::env::args_os().skip(1);
        arguments.next().filter(|command| command == "replay")?;
        let arguments: Vec<OsString> = arguments.collect();
        let names_it = |argument: &OsString| {
            let text = argument.to_string_lossy();
            text == "--prometheus" || text.starts_with("--prometheus=")
        };
        arguments.iter().any(names_it).then_some(Self { arguments })
    }
}

/// Runs the operator's program with these words before the arguments.
pub(crate) fn run(words: &[&str], handed_on: &HandedOn) -> anyhow::Result<Ending> {
    become_program(PROGRAM, PROGRAM, words, handed_on)
}

/// Runs the program that times the operator.
pub(crate) fn run_bench(handed_on: &HandedOn) -> anyhow::Result<Ending> {
    become_program(BENCH, "homeostat-testbed", &[], handed_on)
}

/// Runs the program of trajectory stores with these words before the arguments.
pub(crate) fn run_trajectories(words: &[&str], handed_on: &HandedOn) -> anyhow::Result<Ending> {
    become_program(TRAJECTORIES, TRAJECTORIES, words, handed_on)
}

/// Runs the program of the gateway with these words before the arguments.
pub(crate) fn run_gateway(words: &[&str], handed_on: &HandedOn) -> anyhow::Result<Ending> {
    become_program(GATEWAY, GATEWAY, words, handed_on)
}

/// Runs the program that governs GPU clocks.
pub(crate) fn run_governor(handed_on: &HandedOn) -> anyhow::Result<Ending> {
    become_program(GOVERNOR, GOVERNOR, &[], handed_on)
}

/// Runs the program that measures GPUs.
pub(crate) fn run_gpu_profile(handed_on: &HandedOn) -> anyhow::Result<Ending> {
    become_program(GPU_PROFILE, GPU_PROFILE, &[], handed_on)
}

/// Runs the program that learns from recorded decisions, with this command.
pub(crate) fn run_learn(command: &str, handed_on: &HandedOn) -> anyhow::Result<Ending> {
    become_program(LEARN, LEARN, &[command], handed_on)
}

/// Runs a program in place of this process where the system can do that: signals and exit codes
/// are then its own.
fn become_program(
    name: &str,
    package: &str,
    words: &[&str],
    handed_on: &HandedOn,
) -> anyhow::Result<Ending> {
    let program = beside_or_in_path(name);
    let mut command = Command::new(&program);
    command.args(words).args(&handed_on.arguments);
    #[cfg(unix)]
    let error = std::os::unix::process::CommandExt::exec(&mut command);
    #[cfg(not(unix))]
    let error = match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    };
    if error.kind() == std::io::ErrorKind::NotFound {
        bail!(
            "{name} is not installed: build it with `cargo build --release -p {package}`, and \
             leave it beside homeostat or in PATH"
        );
    }
    Err(error).with_context(|| format!("failed to start {}", program.display()))
}

/// The program beside this one, else whatever PATH has.
fn beside_or_in_path(name: &str) -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(name));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}
