//! `homeostat`: the command line. It parses, calls the workbench and shows what
//! came of it: results on standard output, everything else on standard error.
#![forbid(unsafe_code)]

#[macro_use]
mod stderr;

mod commands;
mod options;
mod output;
mod progress;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{
    bench, calibrate, compare, config, demo, env, eval, operator, plot, policy, report, reproduce,
    sim, trace, train,
};

/// Learning controllers that keep services inside their latency objectives at the
/// lowest cost.
#[derive(Parser)]
#[command(
    name = "homeostat",
    version,
    propagate_version = true,
    after_help = "First steps:\n  homeostat demo                                       watch agents learn, end with a report\n  homeostat train ppo --env classic/cartpole-v1        train, write a run folder\n  homeostat eval runs/ppo-cartpole-v1-seed1            play what was learnt\n  homeostat env card classic/cartpole-v1               what a world is about\n\nExit codes: 0 done, 1 failed, 2 wrong usage, 99 a --fail-if threshold was crossed."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train agents for twelve serverless functions, play them against autoscalers, and report.
    Demo(demo::DemoArguments),
    /// Train agents and keep everything in a run folder.
    Train(train::TrainArguments),
    /// Play the policies of a run, or of one policy file.
    Eval(eval::EvalArguments),
    /// Run autoscaling policies in a simulator, without learning.
    Sim(Box<sim::SimArguments>),
    /// Play a recorded simulation again with another policy; with --prometheus, the recorded
    /// history of a workload on Kubernetes.
    Replay(Box<sim::ReplayArguments>),
    /// Repeat an experiment of the papers.
    Reproduce(reproduce::ReproduceArguments),
    /// Hold runs against each other: means with intervals, and what their differences show.
    Compare(compare::CompareArguments),
    /// Write one self-contained page about runs: answer, pictures, decisions, settings.
    Report(report::ReportArguments),
    /// Draw learning curves of runs as an SVG picture.
    Plot(plot::PlotArguments),
    /// Look at traces, fit models to them and make new ones.
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Look at environments.
    #[command(subcommand)]
    Env(env::EnvCommand),
    /// Look at policy files: what they read and answer, and what can serve them.
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Look at settings and check them.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    #[cfg(feature = "network")]
    #[command(flatten)]
    Network(commands::network::NetworkCommand),
    /// Run the autoscaler for Kubernetes, or print the definitions of its objects.
    Operator(operator::HandedOn),
    /// Say why an autoscaler on Kubernetes is as it is: reasons, inputs, what HPA and VPA would do.
    Explain(operator::HandedOn),
    /// Show the last decisions of an autoscaler on Kubernetes.
    History(operator::HandedOn),
    /// Say once what workloads on Kubernetes should have: from Prometheus or the metrics server,
    /// with nothing installed.
    Recommend(operator::HandedOn),
    /// Measure speed.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Measure what simulated nodes assume.
    #[command(subcommand)]
    Calibrate(calibrate::CalibrateCommand),
}

/// How a command that did not fail ended.
enum Ending {
    Done,
    ThresholdCrossed,
}

fn main() -> ExitCode {
    let result = match operator::HandedOn::replay_of_a_cluster() {
        Some(handed_on) => operator::run(&["replay"], &handed_on),
        None => run(Arguments::parse().command),
    };
    match result {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::ThresholdCrossed) => ExitCode::from(99),
        Err(error) => {
            say!("error: {error:#}");
            ExitCode::from(if is_usage(&error) { 2 } else { 1 })
        }
    }
}

fn run(command: Command) -> anyhow::Result<Ending> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Train(arguments) => train::run(&arguments),
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Sim(command) => sim::run(&command),
        Command::Replay(arguments) => sim::replay(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Plot(arguments) => plot::run(&arguments),
        Command::Trace(command) => trace::run(&command),
        Command::Env(command) => env::run(&command),
        Command::Policy(command) => policy::run(&command),
        Command::Config(command) => config::run(&command),
        #[cfg(feature = "network")]
        Command::Network(command) => commands::network::run(&command),
        Command::Bench(command) => bench::run(&command),
        Command::Operator(handed_on) => operator::run(&[], &handed_on),
        Command::Explain(handed_on) => operator::run(&["explain"], &handed_on),
        Command::History(handed_on) => operator::run(&["history"], &handed_on),
        Command::Recommend(handed_on) => operator::run(&["recommend"], &handed_on),
        Command::Calibrate(command) => calibrate::run(&command),
    }
}

/// Whether the user can mend it by calling differently.
fn is_usage(error: &anyhow::Error) -> bool {
    #[cfg(feature = "network")]
    if commands::network::is_usage(error) {
        return true;
    }
    error.downcast_ref::<homeostat_lab::Error>().is_some_and(homeostat_lab::Error::is_usage)
}
