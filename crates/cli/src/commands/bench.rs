//! `homeostat bench`.

use clap::{Args, Subcommand};
use homeostat_lab::Error;
use homeostat_lab::bench::{LearnBench, LearnReport};
use homeostat_nn::Kernel;
use serde_json::json;

use crate::Ending;
use crate::options::use_threads;
use crate::output::{Output, print, print_records};

/// Measure speed.
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// One PPO update for fleets of agents: actor 16-64-64-7, critic 16-64-64-1, 200
    /// transitions, 5 epochs. `bench/peers/learn` runs the same work on JAX and PyTorch.
    Learn(LearnArguments),
}

#[derive(Args)]
pub(crate) struct LearnArguments {
    /// Sizes of the fleet.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 12, 110, 1000])]
    agents: Vec<usize>,
    /// Minibatch sizes.
    #[arg(long, value_delimiter = ',', default_values_t = [5, 64])]
    minibatch: Vec<usize>,
    /// Timed repetitions; the median counts.
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// avx512, avx2 or portable; by default the fastest here.
    #[arg(long)]
    kernel: Option<String>,
    /// Worker threads.
    #[arg(long)]
    threads: Option<usize>,
    /// Form of the result.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(command: &BenchCommand) -> anyhow::Result<Ending> {
    let BenchCommand::Learn(arguments) = command;
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
             {:.1} billion multiply-adds per second, of {:.1} that the machine has at most\n",
            report.infer_us,
            report.bytes_per_agent,
            report.kernel,
            report.threads,
            report.billion_multiply_adds_per_s,
            report.peak_billion_multiply_adds_per_s,
        ));
    }
}
