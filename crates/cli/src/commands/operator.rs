//! `operator`, `explain`, `history`, `recommend` and `replay --prometheus`: handed on to `homeostat-operator`, a program of its own,
//! so that nobody who only simulates has to build a Kubernetes client.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;

use crate::Ending;

const PROGRAM: &str = "homeostat-operator";

/// Arguments of a command of `homeostat-operator`; it explains them itself.
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

/// Runs the program with these words before the arguments, in place of this process where the
/// system can do that: signals and exit codes are then its own.
pub(crate) fn run(words: &[&str], handed_on: &HandedOn) -> anyhow::Result<Ending> {
    let program = program();
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
            "{PROGRAM} is not installed: build it with `cargo build --release -p {PROGRAM}`, and \
             leave it beside homeostat or in PATH"
        );
    }
    Err(error).with_context(|| format!("failed to start {}", program.display()))
}

/// The program beside this one, else whatever PATH has.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM))
}
