//! `homeostat-operator`: the multidimensional pod autoscaler as a program of its own, so that
//! nobody who only simulates has to build a Kubernetes client. `homeostat operator ...` and its
//! sisters start it.
#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

use clap::Parser;
use commands::Command;
use homeostat_operator::people::plain;

/// Scale workloads on Kubernetes in both directions at once: number of pods and size of pods.
#[derive(Parser)]
#[command(name = "homeostat-operator", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(arguments.command.run()),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // What servers say is quoted in it, and is not ours.
            eprintln!("error: {}", plain(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
