//! `homeostat-gpu-profile`: the program behind `homeostat gpu profile`. It measures operators on a GPU through
//! NVIDIA's driver, which it opens at run time.
//!
//! It is a program of its own, so that it builds fast and can be copied alone to the machine with the card.
#![deny(unsafe_code)]

mod driver;
mod kernels;
mod measure;
mod output;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::driver::Cuda;

/// Measure operators on a GPU of this machine, at the clocks that it has.
///
/// It runs kernels of its own (products of matrices, elementwise operators, multiply-adds in registers,
/// empty launches) and reads time, SM clock and power. It never changes a clock or a power limit: to
/// measure at several clocks, set them yourself (`nvidia-smi -lgc`) and run it once for each. `homeostat gpu plan
/// --sensitivity` reads the results of all runs together.
#[derive(Parser)]
#[command(
    name = "homeostat gpu profile",
    bin_name = "homeostat gpu profile",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  homeostat gpu profile                              what was measured, as a table\n  homeostat gpu profile --output json > 1400.json    for homeostat gpu plan --sensitivity\n  homeostat gpu profile --output toml                a device type for cluster.toml\n\nThe kernels compute with 32-bit numbers and without tensor cores."
)]
struct Arguments {
    /// Number of the GPU, as CUDA counts them.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    device: u32,
    /// Name of the device type in the results [default: the name of the card]
    #[arg(long)]
    name: Option<String>,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 0.5, value_parser = seconds, allow_negative_numbers = true)]
    seconds: f64,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Output {
    /// Aligned columns.
    #[default]
    Table,
    /// JSON, with everything.
    Json,
    /// Comma-separated values with a header.
    Csv,
    /// A device type for the cluster file of `homeostat gpu plan`.
    Toml,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.01..=60.0).contains(&number) {
        return Ok(number);
    }
    Err(format!("{number} is out of range: from 0.01 to 60"))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Standard error may be closed; that must not end a measurement.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let cuda = Cuda::open()?;
    let device = cuda.device(arguments.device)?;
    say(&format!("measuring {} at the clocks that it has", device.name));
    let time = Duration::from_secs_f64(arguments.seconds);
    let profile = measure::profile(&cuda, device, time, &mut say)?;
    if !profile.reads_clocks {
        say("warning: NVML cannot be opened: clocks are the nominal ones, and there is no power");
    }
    let name = arguments.name.clone().unwrap_or_else(|| output::type_name(&profile.device.name));
    let text = match arguments.output {
        Output::Table => output::table(&profile),
        Output::Json => output::json(&profile, &name),
        Output::Csv => output::csv(&profile, &name),
        Output::Toml => output::device_type(&profile, &name),
    };
    // A reader that has gone away is no failure.
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    Ok(())
}
