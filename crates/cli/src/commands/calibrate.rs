//! `homeostat calibrate`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use homeostat_calibrate::{
    ContentionReport, Estimate, Form, GroupSplit, Kind, NodeCalibration, NodeReport, Part,
    StartTimes, serve_worker,
};
use homeostat_lab::{Error, write_atomically};
use serde_json::{Value, json};

use crate::Ending;
use crate::output::{Output, print, print_records};

/// Workers that receive less of the cores than this are not alone on the machine.
const QUIET: f64 = 0.95;

/// Measure the cost of contention on this machine for the simulator.
#[derive(Subcommand)]
pub(crate) enum CalibrateCommand {
    /// Measure the cost of contention, cold starts and too little memory on this machine, and
    /// compare the kernel's division of CPU time with the simulator's. Busy processes run in
    /// control groups for about two minutes; Linux only, as root or in a delegated slice.
    Node(NodeArguments),
    /// A busy process that counts its work.
    #[command(hide = true)]
    Worker(WorkerArguments),
}

#[derive(Args)]
pub(crate) struct NodeArguments {
    /// Duration of one measurement.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Repetitions of each measurement.
    #[arg(long, default_value_t = 3)]
    repetitions: usize,
    /// Categories of work: cpu, cache, memory, io.
    #[arg(long, value_delimiter = ',', default_values_t = Kind::CATEGORIES)]
    categories: Vec<Kind>,
    /// What to measure: contention, starts, paging, shares.
    #[arg(long, value_delimiter = ',', default_values_t = Part::ALL)]
    parts: Vec<Part>,
    /// Cores to use [default: all]
    #[arg(long)]
    cores: Option<usize>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// TOML file for the coefficients, for `homeostat sim --config FILE`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct WorkerArguments {
    /// cpu, cache, memory, io or paging.
    #[arg(long)]
    kind: Kind,
    /// The file that `paging` reads.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Works at once for this long, instead of waiting to be told when.
    #[arg(long)]
    seconds: Option<f64>,
}

pub(crate) fn run(command: &CalibrateCommand) -> anyhow::Result<Ending> {
    match command {
        CalibrateCommand::Node(arguments) => node(arguments),
        CalibrateCommand::Worker(arguments) => worker(arguments),
    }
}

fn worker(arguments: &WorkerArguments) -> anyhow::Result<Ending> {
    let length = arguments.seconds.map(duration).transpose()?;
    let file = arguments.file.as_deref();
    serve_worker(arguments.kind, file, length, std::io::stdin().lock(), std::io::stdout().lock())?;
    Ok(Ending::Done)
}

fn node(arguments: &NodeArguments) -> anyhow::Result<Ending> {
    let calibration = NodeCalibration {
        program: std::env::current_exe().context("failed to find this program")?,
        cores: arguments.cores,
        window: duration(arguments.seconds)?,
        repetitions: arguments.repetitions,
        categories: arguments.categories.clone(),
        parts: arguments.parts.clone(),
    };
    // A signal ends the calibration in order, so that no control group is left behind.
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))
        .context("failed to listen for Ctrl-C")?;
    let stop = || Error::Calibration { reason: "it was interrupted".to_owned() };
    let is_stopped = || interrupted.load(Ordering::SeqCst);
    let report = calibration.run(|what| {
        if !what.is_empty() {
            say!("measuring {what}");
        }
        if is_stopped() { Err(stop()) } else { Ok(()) }
    });
    // Ctrl-C ends the workers too: that they are lost is no news then.
    let report = report.map_err(|error| if is_stopped() { stop() } else { error })?;
    for skipped in &report.skipped {
        say!("skipped {skipped}");
    }
    let received = report.contention.as_ref().and_then(ContentionReport::received);
    if let Some(received) = received.filter(|received| *received < QUIET) {
        say!(
            "warning: other processes took up to {:.0} % of the cores, so no worker was ever alone: \
             repeat this in a quiet moment",
            100.0 * (1.0 - received)
        );
    }
    if let Some(path) = &arguments.out {
        write_atomically(path, report.to_toml().as_bytes())?;
        say!("wrote {}", path.display());
    }
    show(&report, arguments.output);
    Ok(Ending::Done)
}

fn duration(seconds: f64) -> anyhow::Result<Duration> {
    Ok(Duration::try_from_secs_f64(seconds).map_err(|_| Error::OutOfRange {
        key: "seconds".to_owned(),
        value: seconds.to_string(),
        source_text: "flag --seconds".to_owned(),
        expected: "a window lasts 0.05 to 60 seconds".to_owned(),
    })?)
}

fn show(report: &NodeReport, output: Output) {
    if output == Output::Json {
        let report = serde_json::to_value(report).expect("a report is plain data");
        return print(&format!("{report:#}\n"));
    }
    let mut is_first = true;
    let mut table = |title: &str, records: &[Value]| {
        if output == Output::Table {
            print(&format!("{}{title}\n", if is_first { "" } else { "\n" }));
        }
        is_first = false;
        print_records(output, records);
    };
    if let Some(contention) = &report.contention {
        let title = format!(
            "Extra CPU time for the same work: x per overload of {} cores, y with all of them \
             busy. The {} form fits better.",
            contention.cores,
            contention.form.name()
        );
        table(&title, &fits(contention));
        // Programs that want more than the coefficients take JSON.
        if output == Output::Csv {
            return;
        }
        table("Capacity in cores, against busy workers", &curves(contention));
        if !contention.mixes.is_empty() {
            table("Mixes, against the rule of the simulator", &mixes(contention));
        }
    }
    if let Some(starts) = &report.starts {
        let row = |beside: usize, times: &StartTimes| {
            json!({
                "busy_workers": beside,
                "starts": times.count,
                "cpu_ms": scaled(times.cpu_s, 1e3, 1),
                "wall_ms": scaled(times.wall_s, 1e3, 1),
            })
        };
        let rows = [row(0, &starts.alone), row(starts.busy, &starts.contended)];
        table(&format!("A cold start: {}", starts.command), &rows);
    }
    if let Some(paging) = &report.paging {
        let rows: Vec<_> = paging
            .points
            .iter()
            .map(|point| {
                json!({
                    "need_over_limit_less_1": point.excess,
                    "slowdown": scaled(point.slowdown, 1.0, 2),
                })
            })
            .collect();
        let title = format!(
            "Paging: extra time {} per need/limit - 1 (residual {:.2}), or {} per missing part \
             1 - limit/need (residual {:.2}): {:.0} us for a page",
            scaled(paging.slope, 1.0, 2),
            paging.slope_residual_rms,
            scaled(paging.miss_slope, 1.0, 2),
            paging.miss_residual_rms,
            paging.miss_s * 1e6
        );
        table(&title, &rows);
    }
    if let Some(deviation) = report.share_deviation() {
        let rows: Vec<_> = report
            .shares
            .iter()
            .map(|report| {
                let split = |value: fn(&GroupSplit) -> f64| {
                    let parts =
                        report.groups.iter().map(|group| format!("{:.1}", 100.0 * value(group)));
                    parts.collect::<Vec<_>>().join(" : ")
                };
                json!({
                    "cpu.shares": report.case,
                    "kernel_percent": split(|group| group.measured),
                    "simulated_percent": split(|group| group.simulated),
                    "deviation_percent": format!("{:.2}", 100.0 * report.deviation),
                })
            })
            .collect();
        let title = format!("CPU time by weight: at most {:.1} % apart", 100.0 * deviation);
        table(&title, &rows);
    }
}

fn fits(contention: &ContentionReport) -> Vec<Value> {
    let rows = contention.categories.iter().flat_map(|category| {
        Form::ALL.map(|form| {
            let fit = category.fit(form);
            json!({
                "category": category.category,
                "form": form,
                "x": format!("{:.4}", fit.x.value),
                "x_error": format!("{:.4}", fit.x.error),
                "y": format!("{:.4}", fit.y.value),
                "y_error": format!("{:.4}", fit.y.error),
                "residual_rms": format!("{:.4}", fit.residual_rms),
            })
        })
    });
    rows.collect()
}

fn curves(contention: &ContentionReport) -> Vec<Value> {
    let counts = contention.categories.first().map_or(0, |category| category.points.len());
    let row = |index: usize| {
        let mut row = serde_json::Map::new();
        let mut received = f64::INFINITY;
        for category in &contention.categories {
            let point = category.points[index];
            row.insert("busy".to_owned(), json!(point.busy));
            row.insert(category.category.to_string(), json!(scaled(point.capacity, 1.0, 3)));
            received = received.min(point.received);
        }
        // What others took of the busy cores: far below one the machine was not quiet.
        row.insert("cpu_received".to_owned(), json!(format!("{received:.2}")));
        Value::Object(row)
    };
    (0..counts).map(row).collect()
}

fn mixes(contention: &ContentionReport) -> Vec<Value> {
    let rows = contention.mixes.iter().map(|mix| {
        json!({
            "mix": format!("{} and {}", mix.categories[0], mix.categories[1]),
            "busy": mix.busy,
            "capacity": scaled(mix.capacity, 1.0, 3),
            "predicted": format!("{:.3}", mix.predicted),
            "deviation_percent": format!("{:.1}", 100.0 * (mix.capacity.value / mix.predicted - 1.0)),
            "slowdowns": format!("{:.3}, {:.3}", mix.slowdowns[0], mix.slowdowns[1]),
        })
    });
    rows.collect()
}

/// A number with its standard error.
fn scaled(estimate: Estimate, factor: f64, digits: usize) -> String {
    format!("{:.digits$} +- {:.digits$}", factor * estimate.value, factor * estimate.error)
}
