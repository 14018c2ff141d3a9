//! `homeostat spans`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use homeostat_lab::{Error, read_packed};
use homeostat_report::{CriticalPathPage, write_critical_paths};
use homeostat_spans::read::{Format, read_spans};
use homeostat_spans::{
    AnalysisOptions, CriticalPaths, OperationComparison, OperationReport, SpanDefects, SpanLimits,
    SpanStore, TimeRange, compare,
};
use serde_json::{Value, json};

use super::trace::{Pace, reading};
use crate::Ending;
use crate::output::{Output, print, print_records};

/// Analyse the spans of distributed traces.
#[derive(Subcommand)]
pub(crate) enum SpansCommand {
    /// Show where the latency of requests comes from: the critical path of each operation, with
    /// the share of every step.
    CriticalPath(CriticalPathArguments),
}

/// Show where the latency of requests comes from.
#[derive(Args)]
#[command(
    after_help = "FILE holds spans as Jaeger JSON, Zipkin v2 JSON, or OTLP (protobuf or JSON), plain or packed with\nzstd, gzip or zip. What it is, its content says. Several files are one input.\n\nThe share of a step is the time on critical paths that the step spends itself, without the steps\nthat it calls; shares of an operation add up to 100 %. A step that runs in the background, or\nparallel to a slower one, is on no critical path.\n\nMoments of --compare: time since the first span (+90s, +5m, +1h), UTC (2026-01-31T08:00:00Z), or\nseconds since 1970.\n\nExamples:\n  homeostat spans critical-path traces.json\n  homeostat spans critical-path traces.json --operation checkout --report checkout.html\n  homeostat spans critical-path spans.otlp.zst --output json\n  homeostat spans critical-path traces.json --compare +0s..+10m +10m..+20m"
)]
pub(crate) struct CriticalPathArguments {
    /// Files of spans.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Expect this format, and refuse another.
    #[arg(long, value_enum, default_value_t)]
    format: SpanFormat,
    /// Only root operations whose service or name contains this text.
    #[arg(long, value_name = "TEXT")]
    operation: Option<String>,
    /// Compare two ranges of time, each FROM..TO; a request belongs to the range it starts in.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    compare: Option<Vec<String>>,
    /// Executions that two operations need, all in one order, to count as sequential; operations
    /// with fewer executions are taken in the order of time.
    #[arg(long, value_name = "N", default_value_t = AnalysisOptions::default().min_requests, value_parser = clap::value_parser!(u32).range(1..))]
    min_requests: u32,
    /// Spans that are kept; more are counted and left out.
    #[arg(long, value_name = "N", default_value_t = SpanLimits::default().max_spans as u32, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    max_spans: u32,
    /// Write a page with flame graphs here.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Print only results and errors.
    #[arg(long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum, Default)]
enum SpanFormat {
    /// Whatever the content is.
    #[default]
    Auto,
    /// Jaeger JSON.
    Jaeger,
    /// Zipkin v2 JSON.
    Zipkin,
    /// OTLP protobuf or JSON.
    Otlp,
}

impl SpanFormat {
    fn expected(self) -> Option<Format> {
        match self {
            Self::Auto => None,
            Self::Jaeger => Some(Format::Jaeger),
            Self::Zipkin => Some(Format::Zipkin),
            Self::Otlp => Some(Format::Otlp),
        }
    }
}

/// Members of zip archives that may be spans.
const EXTENSIONS: [&str; 6] = ["json", "jsonl", "pb", "bin", "otlp", "proto"];

/// Operations and changes of steps that a table shows, and the least share of a step there.
const MAX_OPERATIONS: usize = 10;
const MAX_CHANGES: usize = 15;
const MIN_SHARE: f64 = 0.005;

/// Deeper steps are not moved further to the right.
const MAX_INDENT: usize = 12;

pub(crate) fn run(command: &SpansCommand) -> anyhow::Result<Ending> {
    match command {
        SpansCommand::CriticalPath(arguments) => critical_path(arguments),
    }
}

fn critical_path(arguments: &CriticalPathArguments) -> anyhow::Result<Ending> {
    let mut store = read(arguments)?;
    let ranges = ranges(arguments, &store)?;
    let options = AnalysisOptions { min_requests: arguments.min_requests };
    let (mut paths, defects) = CriticalPaths::analyse(&mut store, &options, &ranges);
    if let Some(text) = &arguments.operation {
        paths.iter_mut().for_each(|paths| paths.keep_operations_with(text));
    }
    if !arguments.quiet {
        tell_defects(&defects);
    }
    let changes = match paths.as_slice() {
        [before, after] => Some(compare(before, after)),
        _ => None,
    };
    if let Some(out) = &arguments.report {
        let title = arguments.files.iter().map(|file| file_name(file)).collect::<Vec<_>>();
        let page = CriticalPathPage {
            title: &title.join(", "),
            spans: store.len(),
            traces: store.traces(),
            paths: &paths,
            labels: arguments.compare.as_deref().unwrap_or_default(),
            changes: changes.as_deref(),
            defects: &defects,
        };
        write_critical_paths(&page, out)?;
        if !arguments.quiet {
            say!("wrote {}", out.display());
        }
    }
    let summary = Summary { store: &store, defects, paths: &paths };
    match &changes {
        Some(changes) => show_changes(arguments, &summary, changes),
        None => show_paths(arguments, &summary, &paths[0]),
    }
    Ok(Ending::Done)
}

struct Summary<'a> {
    store: &'a SpanStore,
    defects: SpanDefects,
    paths: &'a [CriticalPaths],
}

impl Summary<'_> {
    fn json(&self, operations: Value) -> Value {
        let requests: Vec<u64> = self.paths.iter().map(|paths| paths.requests).collect();
        json!({
            "spans": self.store.len(),
            "traces": self.store.traces(),
            "requests": if let [only] = requests.as_slice() { json!(only) } else { json!(requests) },
            "defects": self.defects,
            "operations": operations,
        })
    }
}

fn read(arguments: &CriticalPathArguments) -> anyhow::Result<SpanStore> {
    let max_spans = arguments.max_spans as usize;
    let mut store = SpanStore::new(SpanLimits { max_spans, ..SpanLimits::default() });
    let mut pace = Pace::new(arguments.quiet);
    for file in &arguments.files {
        let mut watch = |progress| pace.tell(|| reading(file, progress));
        read_packed(file, &EXTENSIONS, &mut watch, |input| {
            let format = read_spans(input, arguments.format.expected(), &mut store);
            format.map_err(|error| error.to_string())
        })?;
    }
    Ok(store)
}

fn ranges(arguments: &CriticalPathArguments, store: &SpanStore) -> anyhow::Result<Vec<TimeRange>> {
    let Some(texts) = &arguments.compare else { return Ok(vec![TimeRange::ALL]) };
    let first_ns = store.extent_ns().map_or(0, |(first, _)| first);
    let range = |text: &String| {
        TimeRange::parse(text, first_ns).map_err(|reason| {
            let source_text = format!("flag --compare {text}");
            anyhow::Error::from(Error::Unreadable { source_text, reason })
        })
    };
    texts.iter().map(range).collect()
}

/// One line about spans that were dropped or repaired.
fn tell_defects(defects: &SpanDefects) {
    let Ok(Value::Object(counts)) = serde_json::to_value(defects) else { return };
    let found: Vec<String> = counts
        .iter()
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(name, count)| format!("{} {count}", name.replace('_', " ")))
        .collect();
    if !found.is_empty() {
        say!("spans dropped or repaired: {}", found.join(", "));
    }
}

fn show_paths(arguments: &CriticalPathArguments, summary: &Summary, paths: &CriticalPaths) {
    let operations = &paths.operations;
    match arguments.output {
        Output::Json => print(&format!("{:#}\n", summary.json(json!(operations)))),
        Output::Csv => {
            let rows = operations.iter().flat_map(|operation| {
                operation.steps.iter().map(|step| {
                    json!({
                        "root_service": operation.service,
                        "root_operation": operation.operation,
                        "requests": operation.requests,
                        "depth": step.depth,
                        "service": step.service,
                        "operation": step.operation,
                        "requests_ratio": step.requests_ratio,
                        "calls_per_request": step.calls_per_request,
                        "self_ms": step.self_ms,
                        "share_ratio": step.share_ratio,
                        "total_ms": step.total_ms,
                    })
                })
            });
            print_records(Output::Csv, &rows.collect::<Vec<_>>());
        }
        Output::Table => {
            print(&format!(
                "{} requests of {} operations, {} spans in {} traces\n",
                paths.requests,
                operations.len(),
                summary.store.len(),
                summary.store.traces()
            ));
            operations.iter().take(MAX_OPERATIONS).for_each(show_operation);
            tell_more(operations.len());
        }
    }
}

fn show_operation(operation: &OperationReport) {
    let latency = &operation.latency;
    print(&format!(
        "\n{} {}: {} requests, {} errors, mean {} ms, p50 {}, p99 {}, {} critical paths\n",
        plain(&operation.service),
        plain(&operation.operation),
        operation.requests,
        operation.errors,
        short(latency.mean_ms),
        short(latency.p50_ms),
        short(latency.p99_ms),
        operation.distinct_paths,
    ));
    let share = |ms: f64| ms / latency.mean_ms.max(f64::MIN_POSITIVE);
    let shown: Vec<_> =
        operation.steps.iter().filter(|step| share(step.total_ms) >= MIN_SHARE).collect();
    let rows: Vec<Value> = shown
        .iter()
        .map(|step| {
            let indent = "  ".repeat(step.depth.min(MAX_INDENT));
            json!({
                "step": format!("{indent}{}", plain(&step.operation)),
                "service": plain(&step.service),
                "self_ms": short(step.self_ms),
                "share_%": format!("{:.1}", 100.0 * step.share_ratio),
                "total_ms": short(step.total_ms),
                "of_requests_%": format!("{:.0}", 100.0 * step.requests_ratio),
            })
        })
        .collect();
    print_records(Output::Table, &rows);
    let hidden = operation.steps.len() - shown.len();
    if hidden > 0 {
        print(&format!("({hidden} steps below {} % are not shown)\n", 100.0 * MIN_SHARE));
    }
}

fn show_changes(
    arguments: &CriticalPathArguments,
    summary: &Summary,
    changes: &[OperationComparison],
) {
    match arguments.output {
        Output::Json => print(&format!("{:#}\n", summary.json(json!(changes)))),
        Output::Csv => {
            let rows = changes.iter().flat_map(|operation| {
                operation.steps.iter().map(|step| {
                    json!({
                        "root_service": operation.service,
                        "root_operation": operation.operation,
                        "service": step.service,
                        "operation": step.operation,
                        "self_ms_before": step.self_ms[0],
                        "self_ms_after": step.self_ms[1],
                        "change_ms": step.change_ms,
                        "share_ratio_before": step.share_ratio[0],
                        "share_ratio_after": step.share_ratio[1],
                    })
                })
            });
            print_records(Output::Csv, &rows.collect::<Vec<_>>());
        }
        Output::Table => {
            changes.iter().take(MAX_OPERATIONS).for_each(show_change);
            tell_more(changes.len());
        }
    }
}

fn show_change(operation: &OperationComparison) {
    let side = |side: usize| match operation.latency[side] {
        Some(latency) => {
            let (mean, p99) = (short(latency.mean_ms), short(latency.p99_ms));
            format!("{} requests, mean {mean} ms, p99 {p99}", operation.requests[side])
        }
        None => "no requests".to_owned(),
    };
    print(&format!(
        "\n{} {}\n  before: {}\n  after:  {}\n",
        plain(&operation.service),
        plain(&operation.operation),
        side(0),
        side(1)
    ));
    let rows: Vec<Value> = operation
        .steps
        .iter()
        .take(MAX_CHANGES)
        .map(|step| {
            json!({
                "step": plain(&step.operation),
                "service": plain(&step.service),
                "before_ms": short(step.self_ms[0]),
                "after_ms": short(step.self_ms[1]),
                "change_ms": format!("{:+.3}", step.change_ms),
                "before_%": format!("{:.1}", 100.0 * step.share_ratio[0]),
                "after_%": format!("{:.1}", 100.0 * step.share_ratio[1]),
            })
        })
        .collect();
    print_records(Output::Table, &rows);
    if operation.steps.len() > MAX_CHANGES {
        let hidden = operation.steps.len() - MAX_CHANGES;
        print(&format!("({hidden} steps that changed less are not shown)\n"));
    }
}

fn tell_more(operations: usize) {
    if operations > MAX_OPERATIONS {
        let hidden = operations - MAX_OPERATIONS;
        print(&format!(
            "\n{hidden} more operations: choose with --operation, or use --output json\n"
        ));
    }
}

/// Milliseconds with as many digits as matter.
fn short(ms: f64) -> String {
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms => format!("{ms:.4}"),
    }
}

/// A name from a file, without what a terminal would obey.
fn plain(name: &str) -> String {
    match name {
        "" => "(unnamed)".to_owned(),
        name => name.replace(char::is_control, "\u{fffd}"),
    }
}

fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
