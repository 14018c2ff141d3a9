//! `homeostat bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use homeostat_core::SimDuration;
use homeostat_experiments::bench::{
    FleetBench, LearnBench, LearnReport, OnDemandBench, SimBench, SpansBench,
};
use homeostat_lab::Error;
use homeostat_nn::Kernel;
use homeostat_simulate::TraceFiles;
use serde_json::json;

use super::operator::{self, HandedOn};
use crate::Ending;
use crate::options::use_threads;
use crate::output::{Output, print, print_record, print_records};

/// Measure the speed of learning, simulation and the operator.
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure one PPO update of many agents: actor 16-64-64-7, critic 16-64-64-1, 200
    /// transitions, 5 epochs; and one forward and backward pass of a bidirectional GRU with 2
    /// layers of 256 units, 32 sequences of 100 steps. `bench/peers/learn` runs the same work on
    /// JAX and PyTorch.
    Learn(LearnArguments),
    /// Measure the simulators: requests, a day of functions, agents, and S-RL on the serverless
    /// platform, requests of Deployments, calls of microservices, and iterations of served models.
    Sim(SimArguments),
    /// Measure one function with Poisson arrivals and constant service time that starts a container
    /// for each request without an idle one. `bench/peers/sim` runs the same on SimFaaS.
    OnDemand(OnDemandArguments),
    /// Measure teams on one platform: training time of 12, 110 and 1000 agents with SIMPPO,
    /// decisions per second and core, memory per agent, and growth with the number of agents.
    #[command(
        after_help = "Examples:\n  homeostat bench fleet --only train_s.n12\n  homeostat bench fleet --only growth\n  homeostat bench fleet --only bytes_per_agent --output json"
    )]
    Fleet(FleetArguments),
    /// Measure span analysis: from OTLP in memory to critical paths, on one core, for many traces
    /// and for one trace of a million spans.
    #[command(
        after_help = "Figures:\n  spans_per_s.memory    OTLP protobuf in memory, read and analysed, traces of 24 spans\n  spans_per_s.parse     reading alone\n  million_span_trace_s  one trace of a million spans, read and analysed\n  peak_mb               peak memory of the process, input included\n\nExamples:\n  homeostat bench spans --output json\n  homeostat bench spans --spans 10000"
    )]
    Spans(SpansArguments),
    /// Measure the operator with 1000 objects on a real API server: reconcile and resync times,
    /// memory, requests. Needs the program operator-bench and Kubernetes binaries.
    Operator(HandedOn),
    /// Measure a trajectory store: durable writes, reads, queries. Needs the program
    /// homeostat-trajectories.
    Trajectories(HandedOn),
    /// Measure the gateway for model servers: added latency, requests per second, open streams,
    /// memory, and the load from which its order helps. Needs the program homeostat-gateway.
    Gateway(HandedOn),
}

#[derive(Args)]
pub(crate) struct FleetArguments {
    /// Measure only this figure, such as train_s.n12, or group of figures, such as train_s.
    #[arg(long, value_name = "KEY")]
    only: Option<String>,
    /// Do a hundredth of the work, for a quick test; do not quote the figures.
    #[arg(long)]
    quick: bool,
    /// Worker threads [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Args)]
pub(crate) struct SpansArguments {
    /// Number of spans of each input.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    spans: u32,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Args)]
pub(crate) struct SimArguments {
    /// Requests per minute of a day's functions [default: generated]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Run times of these functions.
    #[arg(long, value_name = "FILE", requires = "trace")]
    durations: Option<PathBuf>,
    /// Memory of these functions.
    #[arg(long, value_name = "FILE", requires = "trace")]
    memory: Option<PathBuf>,
    /// Number of functions of a generated day.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    functions: u32,
    /// Measure only this group of figures: azure_day, requests_per_s, agent_steps_per_s,
    /// deploy_requests_per_s, mesh_calls_per_s, gpu_iterations_per_s, link_packets_per_s or s_rl.
    #[arg(long, value_name = "GROUP")]
    only: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Args)]
pub(crate) struct OnDemandArguments {
    /// Requests per second.
    #[arg(long, default_value_t = 10.0)]
    rate: f64,
    /// Service time in a warm container, in milliseconds.
    #[arg(long, default_value_t = 100.0, value_name = "MS")]
    service_ms: f64,
    /// Response time of a request with a cold start, in milliseconds, service included.
    #[arg(long, default_value_t = 300.0, value_name = "MS")]
    cold_ms: f64,
    /// Keep-alive time of an idle container, in seconds.
    #[arg(long, default_value_t = 10.0, value_name = "S")]
    keep_alive_s: f64,
    /// Requests to simulate, on average.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
    requests: u64,
    /// Seed of the arrivals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Args)]
pub(crate) struct LearnArguments {
    /// Numbers of agents.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 12, 110, 1000])]
    agents: Vec<usize>,
    /// Minibatch sizes.
    #[arg(long, value_delimiter = ',', default_values_t = [5, 64])]
    minibatch: Vec<usize>,
    /// Timed repetitions; the median is reported.
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// Kernel: avx512, avx2 or portable [default: the fastest on this machine]
    #[arg(long)]
    kernel: Option<String>,
    /// Worker threads [default: one per core]
    #[arg(long)]
    threads: Option<usize>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(command: &BenchCommand) -> anyhow::Result<Ending> {
    match command {
        BenchCommand::Learn(arguments) => learn(arguments),
        BenchCommand::Sim(arguments) => sim(arguments),
        BenchCommand::OnDemand(arguments) => on_demand(arguments),
        BenchCommand::Fleet(arguments) => fleet(arguments),
        BenchCommand::Spans(arguments) => spans(arguments),
        BenchCommand::Operator(handed_on) => operator::run_bench(handed_on),
        BenchCommand::Trajectories(handed_on) => operator::run_trajectories(&["bench"], handed_on),
        BenchCommand::Gateway(handed_on) => operator::run_gateway(&["bench"], handed_on),
    }
}

fn fleet(arguments: &FleetArguments) -> anyhow::Result<Ending> {
    use_threads(arguments.threads)?;
    let bench =
        FleetBench { only: arguments.only.clone(), quick: arguments.quick, kernel: Kernel::best() };
    let report = bench.run(|what| say!("timing {what}"))?;
    if arguments.output == Output::Json {
        print(&format!("{:#}\n", report.to_json()));
        return Ok(Ending::Done);
    }
    let rows: Vec<_> = report
        .figures
        .iter()
        .map(|figure| {
            json!({
                "figure": figure.key,
                "value": figure.value,
                "aim": figure.aim.map_or(String::new(), |aim| aim.to_string()),
                "met": figure.aim.map_or("", |aim| if aim.is_met(figure.value) { "yes" } else { "no" }),
                "paper": figure.paper,
            })
        })
        .collect();
    print_records(arguments.output, &rows);
    if arguments.output == Output::Table {
        print(&format!("\nkernel {}, {} threads\n", report.kernel, report.threads));
        if report.quick {
            print("a hundredth of the work: do not quote these figures\n");
        }
    }
    Ok(Ending::Done)
}

fn sim(arguments: &SimArguments) -> anyhow::Result<Ending> {
    let trace = arguments.trace.clone().map(|counts| TraceFiles {
        counts,
        durations: arguments.durations.clone(),
        memory: arguments.memory.clone(),
    });
    let (functions, only) = (arguments.functions as usize, arguments.only.clone());
    let bench = SimBench { trace, functions, seconds: 5000, only };
    let report = bench.run(|what| say!("timing {what}"))?;
    if arguments.output == Output::Json {
        print(&format!("{:#}\n", json!(report)));
        return Ok(Ending::Done);
    }
    let rows: Vec<_> = report
        .rows()
        .into_iter()
        .map(|(figure, value)| json!({ "figure": figure, "value": value }))
        .collect();
    print_records(arguments.output, &rows);
    Ok(Ending::Done)
}

fn spans(arguments: &SpansArguments) -> anyhow::Result<Ending> {
    let bench = SpansBench { spans: arguments.spans as usize };
    let report = bench.run(|what| say!("timing {what}"))?;
    if arguments.output == Output::Json {
        print(&format!("{:#}\n", serde_json::to_value(report)?));
        return Ok(Ending::Done);
    }
    let rows: Vec<_> = report
        .rows()
        .into_iter()
        .map(|(figure, value)| json!({ "figure": figure, "value": value }))
        .collect();
    print_records(arguments.output, &rows);
    Ok(Ending::Done)
}

fn on_demand(arguments: &OnDemandArguments) -> anyhow::Result<Ending> {
    let time = |key: &str, value: f64, unit_s: f64| {
        SimDuration::from_seconds(value * unit_s).map_err(|_| Error::OutOfRange {
            key: key.to_owned(),
            value: value.to_string(),
            source_text: format!("flag --{key}"),
            expected: "it must be a number of 0 or above".to_owned(),
        })
    };
    let bench = OnDemandBench {
        rate: arguments.rate,
        service: time("service-ms", arguments.service_ms, 1e-3)?,
        cold: time("cold-ms", arguments.cold_ms, 1e-3)?,
        keep_alive: time("keep-alive-s", arguments.keep_alive_s, 1.0)?,
        requests: arguments.requests,
        seed: arguments.seed,
    };
    print_record(arguments.output, &json!(bench.run()?));
    Ok(Ending::Done)
}

fn learn(arguments: &LearnArguments) -> anyhow::Result<Ending> {
    use_threads(arguments.threads)?;
    let out_of_range = |key: &str, value: String, expected: String| Error::OutOfRange {
        key: key.to_owned(),
        value,
        source_text: format!("flag --{key}"),
        expected,
    };
    for (key, values) in [("agents", &arguments.agents), ("minibatch", &arguments.minibatch)] {
        let most = if key == "minibatch" { 200 } else { 1_000_000 };
        if let Some(value) = values.iter().find(|value| **value == 0 || **value > most) {
            return Err(out_of_range(
                key,
                value.to_string(),
                format!("it must lie from 1 to {most}"),
            )
            .into());
        }
    }
    if arguments.repetitions == 0 {
        return Err(out_of_range(
            "repetitions",
            "0".to_owned(),
            "it must be at least 1".to_owned(),
        )
        .into());
    }
    let kernel = match &arguments.kernel {
        None => Kernel::best(),
        Some(name) => Kernel::by_name(name).ok_or_else(|| {
            let names: Vec<_> = Kernel::available().iter().map(Kernel::to_string).collect();
            out_of_range("kernel", name.clone(), format!("this machine has {}", names.join(", ")))
        })?,
    };
    let bench = LearnBench {
        agents: arguments.agents.clone(),
        minibatches: arguments.minibatch.clone(),
        repetitions: arguments.repetitions,
        kernel,
    };
    let report = bench.run(|what| say!("timing {what}"))?;
    show(&report, arguments.output);
    Ok(Ending::Done)
}

fn show(report: &LearnReport, output: Output) {
    if output == Output::Json {
        return print(&format!("{:#}\n", report.to_json()));
    }
    let records: Vec<_> = report
        .updates
        .iter()
        .map(|timing| {
            json!({
                "minibatch": timing.minibatch,
                "agents": timing.agents,
                "update_ms": timing.median_ms,
                "fastest_ms": timing.fastest_ms,
                "checksum": format!("{:.5}", timing.checksum),
                "checksum_abs": format!("{:.4}", timing.checksum_abs),
            })
        })
        .collect();
    print_records(output, &records);
    if output == Output::Table {
        print(&format!(
            "\none inference {:.3} us, {} bytes per agent, kernel {}, {} threads\n\
             recurrent network {:.1} ms, fastest {:.1} ms, loss {:.6}, gradient {:.5}\n\
             {:.1} billion multiply-adds per second, of {:.1} that the machine has at most\n",
            report.infer_us,
            report.bytes_per_agent,
            report.kernel,
            report.threads,
            report.recurrent.median_ms,
            report.recurrent.fastest_ms,
            report.recurrent.loss,
            report.recurrent.gradient_abs,
            report.billion_multiply_adds_per_s,
            report.peak_billion_multiply_adds_per_s,
        ));
    }
}
