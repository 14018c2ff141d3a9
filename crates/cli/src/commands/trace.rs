//! `homeostat trace`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use homeostat_lab::{Error, FileProgress, write_atomically};
use homeostat_load::traffic::{Quantiles, TrafficModel};
use homeostat_simulate::{
    FitRow, GeneratedTrace, fit_trace, inspect_trace, model_to_toml, read_model, write_trace,
};
use serde_json::{Map, Value, json};

use crate::Ending;
use crate::output::{Output, print, print_record, print_records};

/// Inspect request traces, fit models to them and generate new ones.
#[derive(Subcommand)]
pub(crate) enum TraceCommand {
    /// Summarise a trace: rates, burstiness, idle functions, gaps.
    Inspect(InspectArguments),
    /// Fit a traffic model to a trace.
    Fit(FitArguments),
    /// Generate a trace from the built-in model of Azure Functions or from a fitted one.
    Generate(GenerateArguments),
}

/// Summarise a trace: rates, burstiness, idle functions, gaps.
#[derive(Args)]
#[command(
    after_help = "FILE is a table of the Azure Functions traces: requests per minute, durations or memory (2019),\nor invocations (2021), plain or compressed with zstd, gzip or zip; the content is recognised.\n\nQuantiles are over functions. Dispersion is the variance of requests per minute over their mean:\n1 for independent requests, more for bursts, less for timers.\n\nExamples:\n  homeostat trace inspect invocations_per_function_md.anon.d01.csv\n  homeostat trace inspect azurefunctions-dataset2019-day1.zip --output json"
)]
pub(crate) struct InspectArguments {
    /// Trace file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Print only results and errors.
    #[arg(long)]
    quiet: bool,
}

/// Fit a traffic model to a trace.
#[derive(Args)]
#[command(
    after_help = "Give the requests per minute of a trace, and its durations and memory if you have them; the\nothers stay as in the built-in model azure-2019.\n\nExamples:\n  homeostat trace fit invocations.csv durations.csv memory.csv --out mine.toml\n  homeostat trace generate --model mine.toml --functions 500 --out made.csv"
)]
pub(crate) struct FitArguments {
    /// Files of one trace.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// TOML file for the model.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file of --out if it exists.
    #[arg(long, requires = "out")]
    force: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Print only results and errors.
    #[arg(long)]
    quiet: bool,
}

/// Generate a trace from the built-in model of Azure Functions or from a fitted one.
#[derive(Args)]
#[command(
    after_help = "The file has the format of the Azure Functions trace of 2019, requests per minute. The same seed\ngives the same file; with more functions, lines are added and none changes.\n\nModels:\n  azure-2019            500 functions of one day (Shahrad et al., USENIX ATC 2020)\n  azure-2019-fortnight  1000 functions, each minute summed over fourteen days\n  FILE.toml             what `homeostat trace fit --out` wrote\n\nExamples:\n  homeostat trace generate --functions 1000 --minutes 1440 --seed 1 --out day.csv\n  homeostat trace inspect day.csv"
)]
pub(crate) struct GenerateArguments {
    /// Number of functions.
    #[arg(long, default_value_t = 1000)]
    functions: usize,
    /// Minutes per function.
    #[arg(long, default_value_t = 1440)]
    minutes: usize,
    /// Seed of functions and requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Built-in model or model file.
    #[arg(long, value_name = "MODEL", default_value = "azure-2019")]
    model: String,
    /// Trace file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file of --out if it exists.
    #[arg(long)]
    force: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Print only results and errors.
    #[arg(long)]
    quiet: bool,
}

pub(crate) fn run(command: &TraceCommand) -> anyhow::Result<Ending> {
    match command {
        TraceCommand::Inspect(arguments) => inspect(arguments)?,
        TraceCommand::Fit(arguments) => fit(arguments)?,
        TraceCommand::Generate(arguments) => generate(arguments)?,
    }
    Ok(Ending::Done)
}

fn inspect(arguments: &InspectArguments) -> anyhow::Result<()> {
    let mut pace = Pace::new(arguments.quiet);
    let summary = inspect_trace(&arguments.file, &mut |progress| {
        pace.tell(|| reading(&arguments.file, progress));
    })?;
    show_summary(arguments.output, &serde_json::to_value(summary)?);
    Ok(())
}

/// A file that took work is not replaced by a slip of the keyboard.
fn refuse_to_replace(out: &Path, force: bool) -> anyhow::Result<()> {
    if force || !out.is_file() {
        return Ok(());
    }
    Err(Error::Unreadable {
        source_text: format!("flag --out {}", out.display()),
        reason: "the file exists already: use another name, or replace it with --force".to_owned(),
    }
    .into())
}

fn fit(arguments: &FitArguments) -> anyhow::Result<()> {
    if let Some(out) = &arguments.out {
        refuse_to_replace(out, arguments.force)?;
    }
    let mut pace = Pace::new(arguments.quiet);
    let otherwise = TrafficModel::azure_2019();
    let fitted = fit_trace(&arguments.files, &otherwise, &mut |path, progress| {
        pace.tell(|| reading(path, progress));
    })?;
    let (model, goodness) = (&fitted.model, fitted.goodness());
    if let Some(out) = &arguments.out {
        write_atomically(out, model_to_toml(model)?.as_bytes())?;
        if !arguments.quiet {
            say!("wrote {}", out.display());
        }
    }
    match arguments.output {
        Output::Json => {
            let mut record = serde_json::to_value(model)?;
            record["goodness_of_fit"] = serde_json::to_value(&goodness)?;
            print(&format!("{record:#}\n"));
        }
        Output::Csv => print_records(Output::Csv, &model_rows(model)),
        Output::Table => {
            print_records(Output::Table, &model_rows(model));
            print("\nTraces from the model (five seeds) beside this one:\n");
            let rows: Result<Vec<Value>, _> = goodness.iter().map(serde_json::to_value).collect();
            print_records(Output::Table, &rows?);
        }
    }
    if !arguments.quiet {
        goodness.iter().filter(|row| is_poor(row)).for_each(|row| {
            say!(
                "warning: {} of traces from the model is {:.2} to {:.2}, and {:.2} in this trace",
                row.figure,
                row.model_min,
                row.model_max,
                row.trace
            );
        });
    }
    Ok(())
}

/// Whether a figure of the whole trace lies outside of what the model makes, by more than a half.
fn is_poor(row: &FitRow) -> bool {
    row.distance.is_none() && (row.model_min > 1.5 * row.trace || 1.5 * row.model_max < row.trace)
}

fn generate(arguments: &GenerateArguments) -> anyhow::Result<()> {
    refuse_to_replace(&arguments.out, arguments.force)?;
    let model = match arguments.model.as_str() {
        "azure-2019" => TrafficModel::azure_2019(),
        "azure-2019-fortnight" => TrafficModel::azure_2019_fortnight(),
        file => read_model(Path::new(file))?,
    };
    let (functions, minutes) = (arguments.functions, arguments.minutes);
    let trace = GeneratedTrace { model, functions, minutes, seed: arguments.seed };
    let mut pace = Pace::new(arguments.quiet);
    let summary = write_trace(&arguments.out, &trace, &mut |made| {
        pace.tell(|| format!("made {made} of {functions} functions"));
    })?;
    let record = json!({
        "file": arguments.out.display().to_string(),
        "functions": summary.functions,
        "minutes": summary.minutes,
        "invocations": summary.invocations,
    });
    print_record(arguments.output, &record);
    Ok(())
}

/// Lines to standard error, not too many of them.
pub(super) struct Pace {
    is_quiet: bool,
    last: Instant,
}

/// Time between two lines; what takes less needs none.
const TELL_EVERY: Duration = Duration::from_secs(2);

impl Pace {
    pub(super) fn new(is_quiet: bool) -> Self {
        Self { is_quiet, last: Instant::now() }
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        if !self.is_quiet && self.last.elapsed() >= TELL_EVERY {
            self.last = Instant::now();
            say!("{}", line());
        }
    }
}

pub(super) fn reading(path: &Path, progress: FileProgress) -> String {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    format!(
        "read {:.1} of {:.1} MB of {}",
        megabytes(progress.read),
        megabytes(progress.total),
        path.display()
    )
}

/// Plain figures first, then those that are spread over functions.
fn show_summary(output: Output, summary: &Value) {
    let empty = Map::new();
    let fields = summary.as_object().unwrap_or(&empty);
    match output {
        Output::Json => print(&format!("{summary:#}\n")),
        Output::Csv => {
            let mut flat = Map::new();
            for (name, value) in fields {
                match value.as_object() {
                    Some(spread) => flat.extend(
                        spread
                            .iter()
                            .map(|(level, value)| (format!("{name}_{level}"), value.clone())),
                    ),
                    None => {
                        flat.insert(name.clone(), value.clone());
                    }
                }
            }
            print_record(output, &Value::Object(flat));
        }
        Output::Table => {
            let (spreads, plain): (Vec<_>, Vec<_>) =
                fields.iter().partition(|(_, value)| value.is_object());
            let plain = plain.into_iter().map(|(name, value)| (name.clone(), value.clone()));
            print_record(output, &Value::Object(plain.collect()));
            print("\n");
            let rows: Vec<Value> = spreads
                .into_iter()
                .map(|(name, value)| {
                    let mut row = Map::from_iter([("figure".to_owned(), json!(name))]);
                    row.extend(value.as_object().cloned().unwrap_or_default());
                    Value::Object(row)
                })
                .collect();
            print_records(output, &rows);
        }
    }
}

/// A row for each distribution of a model, with the part of the functions that it is for.
fn model_rows(model: &TrafficModel) -> Vec<Value> {
    let row = |figure: &str, of: String, share: f64, quantiles: &Quantiles| {
        let mut row = Map::from_iter([
            ("figure".to_owned(), json!(figure)),
            ("of".to_owned(), json!(of)),
            ("share".to_owned(), json!(share)),
        ]);
        for (level, value) in Quantiles::LEVELS.iter().zip(quantiles.values()) {
            row.insert(format!("p{:.0}", level * 100.0), json!(value));
        }
        Value::Object(row)
    };
    let all = || "all".to_owned();
    let random_share = 1.0 - model.clock_share;
    let mut rows = vec![
        row("duration_median_ms", all(), 1.0, &model.duration_median_ms),
        row("duration_spread", all(), 1.0, &model.duration_spread),
        row("memory_mib", all(), 1.0, &model.memory_mib),
        row("slip", "clocks".to_owned(), model.clock_share, &model.slip),
    ];
    for clock in &model.clocks {
        let of = format!("clocks of {} min", clock.minutes);
        rows.push(row("batch", of, model.clock_share * clock.weight, &clock.batch));
    }
    rows.push(row("per_minute", "random".to_owned(), random_share, &model.per_minute));
    let mut from = 0.0;
    for band in &model.bands {
        let of = format!("random {:.0}-{:.0}%", from * 100.0, band.up_to * 100.0);
        let share = random_share * (band.up_to - from);
        from = band.up_to;
        for (figure, quantiles) in [
            ("bunching", &band.bunching),
            ("clinging", &band.clinging),
            ("spread", &band.spread),
            ("autocorrelation_1", &band.autocorrelation_1),
            ("autocorrelation_60", &band.autocorrelation_60),
        ] {
            rows.push(row(figure, of.clone(), share, quantiles));
        }
    }
    rows
}
