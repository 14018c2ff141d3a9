//! `homeostat-operator`: the multidimensional pod autoscaler. It is a program of its own, which
//! `homeostat operator ...` and similar commands start, so that simulations need no Kubernetes client.
#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

use clap::Parser;
use commands::Command;
use homeostat_operator::cli_output::plain;

/// Scale workloads on Kubernetes in both dimensions at once: number of pods and size of pods.
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
        Ok(runtime) => {
            let result = runtime.block_on(arguments.command.run());
            // Dropping the runtime would wait for a task that blocks its thread for ever.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // It quotes untrusted answers of servers.
            eprintln!("error: {}", plain(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}
