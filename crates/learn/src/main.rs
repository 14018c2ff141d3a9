//! `homeostat-learn`: the program behind `homeostat learn` and `homeostat evaluate-offline`. Both read
//! recorded decisions, from a trajectory store or from exported records, and never act. It is a
//! program of its own, so that the operator stays small and training can die at any time.
#![forbid(unsafe_code)]

mod checkpoint;
mod evaluate;
mod output;
mod recorded;
mod repeat;
mod train;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Learn policies from recorded decisions, and evaluate them before they act.
#[derive(Parser)]
#[command(name = "homeostat", bin_name = "homeostat", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Learn a policy from recorded decisions, and write it if off-policy evaluation admits it.
    Learn(train::LearnArguments),
    /// Estimate from recorded decisions what a policy is worth, with confidence intervals.
    EvaluateOffline(evaluate::EvaluateArguments),
}

/// The exit code of a policy that is not admitted, as of any threshold that was crossed.
const NOT_ADMITTED: u8 = 99;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Learn(arguments) => train::run(&arguments),
        Command::EvaluateOffline(arguments) => evaluate::run(&arguments),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NOT_ADMITTED),
        Err(error) => {
            // Standard error may be closed; there is no one left to tell.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
