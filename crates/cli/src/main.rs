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
    bench, calibrate, compare, completions, config, demo, env, eval, gpu, operator, plot, policy,
    report, reproduce, runs, sim, size, spans, trace, train,
};

/// Autoscaling controllers that keep services within their latency SLO at the lowest cost:
/// train them, simulate them, and run them on Kubernetes.
#[derive(Parser)]
#[command(
    name = "homeostat",
    version,
    propagate_version = true,
    after_help = "First steps:\n  homeostat demo                                       train agents, compare with autoscalers\n  homeostat train ppo --env classic/cartpole-v1        train an agent and write a run directory\n  homeostat eval runs/ppo-cartpole-v1-seed1            evaluate the trained policy\n  homeostat sim faas --policy hpa+vpa                  run an autoscaling policy in the simulator\n  homeostat recommend -A                               recommend requests and replicas\n\nExit codes: 0 done, 1 failed, 2 wrong usage, 99 a --fail-if threshold was crossed,\n130 interrupted (Ctrl-C)."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train agents for twelve serverless functions and compare them with autoscalers.
    Demo(demo::DemoArguments),
    /// Train agents and write a run directory.
    Train(train::TrainArguments),
    /// Evaluate the policies of a run, or one policy file.
    Eval(eval::EvalArguments),
    /// Run autoscaling policies in the simulator.
    Sim(Box<sim::SimArguments>),
    /// Repeat a simulation with another policy; with --prometheus, replay the history of a
    /// workload on Kubernetes.
    Replay(Box<sim::ReplayArguments>),
    /// Reproduce an experiment of the papers.
    Reproduce(reproduce::ReproduceArguments),
    /// Recommend the memory size of serverless functions from measurements at one or more sizes.
    Size(size::SizeArguments),
    /// List runs with their results.
    #[command(subcommand)]
    Runs(runs::RunsCommand),
    /// Compare runs with paired confidence intervals.
    Compare(compare::CompareArguments),
    /// Write one self-contained HTML page about runs.
    Report(report::ReportArguments),
    /// Draw learning curves of runs as SVG.
    Plot(plot::PlotArguments),
    /// Inspect request traces, fit models to them and generate new ones.
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Find the critical paths of requests in spans of Jaeger, Zipkin or OpenTelemetry.
    #[command(subcommand)]
    Spans(spans::SpansCommand),
    /// List, describe, check and serve environments.
    #[command(subcommand)]
    Env(env::EnvCommand),
    /// Show the features, actions and provenance of a policy file.
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Show and check settings.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    #[cfg(feature = "network")]
    #[command(flatten)]
    Network(commands::network::NetworkCommand),
    /// Run the Kubernetes autoscaler, or print its manifests.
    Operator(operator::HandedOn),
    /// Explain the decision of an autoscaler on Kubernetes: reasons, inputs, and what HPA and VPA
    /// would do.
    Explain(operator::HandedOn),
    /// Show the latest decisions of an autoscaler on Kubernetes.
    History(operator::HandedOn),
    /// Recommend requests and replicas for workloads on Kubernetes, from Prometheus or the metrics
    /// server; installs nothing.
    Recommend(operator::HandedOn),
    /// List, show, export, import and prune recorded decisions.
    Trajectories(operator::HandedOn),
    /// Answer short requests first, in front of OpenAI-compatible servers of language models.
    Gateway(operator::HandedOn),
    /// Lower the clocks of GPUs that serve models as far as their SLOs allow.
    Governor(operator::HandedOn),
    /// Plan the placement of models on GPUs, and measure GPUs for it.
    #[command(subcommand)]
    Gpu(gpu::GpuCommand),
    /// Learn a policy from recorded decisions, and write it if off-policy evaluation admits it.
    Learn(operator::HandedOn),
    /// Estimate from recorded decisions what a policy is worth, with confidence intervals.
    EvaluateOffline(operator::HandedOn),
    /// Print the completion script of a shell.
    Completions(completions::CompletionsArguments),
    /// Measure the speed of learning, simulation and the operator.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Measure the cost of contention on this machine for the simulator.
    #[command(subcommand)]
    Calibrate(calibrate::CalibrateCommand),
}

/// The exit code after Ctrl-C, as shells have it: 128 and the number of the signal.
const INTERRUPTED: u8 = 130;

/// How a command that did not fail ended.
enum Ending {
    Done,
    ThresholdCrossed,
    Interrupted,
}

fn main() -> ExitCode {
    let result = match operator::HandedOn::replay_of_a_cluster() {
        Some(handed_on) => operator::run(&["replay"], &handed_on),
        None => run(Arguments::parse().command),
    };
    match result {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::ThresholdCrossed) => ExitCode::from(99),
        Ok(Ending::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(error) => {
            say!("error: {error:#}");
            if matches!(error.downcast_ref(), Some(homeostat_lab::Error::Interrupted)) {
                return ExitCode::from(INTERRUPTED);
            }
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
        Command::Size(arguments) => size::run(&arguments),
        Command::Runs(command) => runs::run(&command),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Plot(arguments) => plot::run(&arguments),
        Command::Trace(command) => trace::run(&command),
        Command::Spans(command) => spans::run(&command),
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
        Command::Trajectories(handed_on) => operator::run_trajectories(&[], &handed_on),
        Command::Gateway(handed_on) => operator::run_gateway(&[], &handed_on),
        Command::Governor(handed_on) => operator::run_governor(&handed_on),
        Command::Gpu(command) => gpu::run(&command),
        Command::Learn(handed_on) => operator::run_learn("learn", &handed_on),
        Command::EvaluateOffline(handed_on) => operator::run_learn("evaluate-offline", &handed_on),
        Command::Calibrate(command) => calibrate::run(&command),
    }
}

/// Whether the user can mend it by calling differently.
fn is_usage(error: &anyhow::Error) -> bool {
    #[cfg(feature = "network")]
    if commands::network::is_usage(error) {
        return true;
    }
    if error.downcast_ref::<homeostat_placement::Error>().is_some() {
        return true;
    }
    error.downcast_ref::<homeostat_lab::Error>().is_some_and(homeostat_lab::Error::is_usage)
}
