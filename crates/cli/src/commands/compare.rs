//! `homeostat compare`.

use std::path::PathBuf;

use clap::Args;
use homeostat_lab::Threshold;
use homeostat_report::compare::{ComparedRun, Comparison, OpenedRuns, RunKind, signed};
use serde_json::{Map, Value, json};

use crate::Ending;
use crate::commands::train::{figure_names, parse_thresholds};
use crate::output::{Output, print, print_records};

/// Compare runs with paired confidence intervals.
#[derive(Args)]
#[command(
    after_help = "Simulations are paired by seed; training runs are compared with Welch's interval over their\nagents. A difference is called better or worse only if its 95 % confidence interval excludes\nzero. --fail-if checks every run except the baseline; the figures `better` and `worse` count its\nsignificant differences.\n\nExamples:\n  homeostat compare runs/sim-hpa+vpa runs/sim-ensure\n  homeostat compare runs/sim-* --baseline runs/sim-none --per-function\n  homeostat compare runs/before runs/after --fail-if 'worse > 0'      exit code 99 if so, for CI"
)]
pub(crate) struct CompareArguments {
    /// Run directories, all of simulations or all of training runs.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Run that the others are compared with [default: the first]
    #[arg(long, value_name = "RUN")]
    baseline: Option<PathBuf>,
    /// Compare even if the simulated systems have different settings.
    #[arg(long)]
    anyway: bool,
    /// Print one row per function (simulations only).
    #[arg(long)]
    per_function: bool,
    /// Exit with code 99 if a run crosses this threshold, for example 'slo_violation_ratio_difference > 0'; repeatable.
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

pub(crate) fn run(arguments: &CompareArguments) -> anyhow::Result<Ending> {
    let runs = OpenedRuns::open(&arguments.runs, arguments.baseline.as_deref())?;
    let total = runs.total()?;
    let figures = total.record(total.baseline, None);
    let thresholds = parse_thresholds(&arguments.fail_if, &figure_names(&figures))?;
    if !arguments.anyway {
        total.refuse_different_settings()?;
    }
    for difference in &total.setting_differences {
        say!("warning: the runs have different settings: {difference}");
    }
    if arguments.per_function {
        let scopes = runs.per_function()?.into_iter().map(|(name, scope)| (Some(name), scope));
        show(arguments.output, &scopes.collect::<Vec<_>>());
    } else {
        show(arguments.output, &[(None, total.clone())]);
    }
    crossed(&thresholds, &total)
}

fn show(output: Output, scopes: &[(Option<String>, Comparison)]) {
    if output != Output::Table {
        let records: Vec<Value> = scopes
            .iter()
            .flat_map(|(name, comparison)| {
                let places = 0..comparison.runs.len();
                places.map(move |place| comparison.record(place, name.as_deref()))
            })
            .collect();
        print_records(output, &records);
        return;
    }
    let figures: Vec<Value> = scopes
        .iter()
        .flat_map(|(name, comparison)| {
            comparison.runs.iter().map(move |run| figures_row(comparison, run, name.as_deref()))
        })
        .collect();
    print_records(output, &figures);
    let differences: Vec<Value> = scopes
        .iter()
        .flat_map(|(name, comparison)| {
            let runs = comparison.runs.iter().flat_map(differences_rows);
            runs.map(move |row| with_function(row, name.as_deref()))
        })
        .collect();
    let Some((_, first)) = scopes.first() else { return };
    print(&format!("\n{}\n", against(first)));
    print_records(output, &differences);
}

/// What the second table holds.
fn against(comparison: &Comparison) -> String {
    let base = &comparison.runs[comparison.baseline].label;
    if comparison.kind == RunKind::Training {
        return format!("differences from {base}, Welch's 95 % interval over agents");
    }
    let others =
        comparison.runs.iter().enumerate().filter(|(place, _)| *place != comparison.baseline);
    let fewest = others.map(|(_, run)| run.common).min().unwrap_or(0);
    match fewest {
        0 => {
            format!("differences from {base}: runs without a common seed are left out")
        }
        1 => {
            format!("differences from {base}: one common seed gives no interval; use at least two")
        }
        count => format!("differences from {base}, 95 % interval over {count} common seeds"),
    }
}

fn figures_row(comparison: &Comparison, run: &ComparedRun, function: Option<&str>) -> Value {
    // A table has room for what people ask first; programs get everything.
    const SHOWN: [(&str, &str); 9] = [
        ("return_mean", "return"),
        ("slo_violation_ratio", "slo violations %"),
        ("p99_over_slo", "p99/slo"),
        ("preservation", "preservation"),
        ("cpu_utilisation", "cpu use"),
        ("memory_utilisation", "memory use"),
        ("container_s", "container-s"),
        ("memory_gib_s", "memory gib-s"),
        ("cold_starts", "cold starts"),
    ];
    let mut row = Map::new();
    row.insert("run".to_owned(), json!(run.label));
    let trials = if comparison.kind == RunKind::Training { "agents" } else { "seeds" };
    row.insert(trials.to_owned(), json!(run.trials));
    for (key, heading) in SHOWN {
        if let Some((metric, summary)) = run.figures.iter().find(|(metric, _)| metric.key == key) {
            row.insert(heading.to_owned(), json!(metric.text(summary)));
        }
    }
    with_function(Value::Object(row), function)
}

fn differences_rows(run: &ComparedRun) -> Vec<Value> {
    let rows = run.differences.iter().map(|difference| {
        let (mean, interval) = difference.in_unit();
        json!({
            "run": run.label,
            "figure": difference.metric.label,
            "difference": signed(mean, interval),
            "shows": difference.verdict().to_string(),
        })
    });
    rows.collect()
}

/// The row with its function in front, if it is of one.
fn with_function(row: Value, function: Option<&str>) -> Value {
    let Some(function) = function else { return row };
    let mut fields = Map::new();
    fields.insert("function".to_owned(), json!(function));
    fields.extend(row.as_object().cloned().unwrap_or_default());
    Value::Object(fields)
}

/// Whether a run other than the baseline crosses a threshold; says which.
fn crossed(thresholds: &[Threshold], comparison: &Comparison) -> anyhow::Result<Ending> {
    let mut ending = Ending::Done;
    for place in (0..comparison.runs.len()).filter(|place| *place != comparison.baseline) {
        let figures = comparison.record(place, None);
        for threshold in thresholds {
            if let Some(value) = threshold.crossed_by(&figures)? {
                let label = &comparison.runs[place].label;
                say!("threshold crossed by {label}: {threshold}, it is {value}");
                ending = Ending::ThresholdCrossed;
            }
        }
    }
    Ok(ending)
}
