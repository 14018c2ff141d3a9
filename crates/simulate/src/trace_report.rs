//! What people do with traces: look at them, fit a model to them, and make some.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use homeostat_core::{SeedTree, SimDuration, SimTime};
use homeostat_lab::{Error, FileProgress, Result, file_error};
use homeostat_load::trace::{InvocationReader, TraceReader};
use homeostat_load::traffic::{
    ModelFit, Rhythm, Spread, TraceFigures, TraceSummary, TrafficModel, distance,
};
use rayon::prelude::*;
use serde::Serialize;

use crate::trace_file::read_trace;

/// Invocations after this minute are refused: each function has a count for every minute.
/// It is ten weeks; the trace of 2021 has two.
const MAX_MINUTES: u64 = 100_800;

/// Most counts of one trace, functions by minutes: some four gigabytes of text.
const MAX_COUNTS: usize = 1 << 31;

/// Nanoseconds of a minute.
const MINUTE_NANOS: u64 = 60_000_000_000;

/// A table at a glance.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "table", rename_all = "snake_case")]
pub enum TableSummary {
    /// Requests per minute, or invocations counted by minute.
    Counts(Box<TraceSummary>),
    /// Run times.
    Durations {
        /// Functions.
        functions: usize,
        /// Their invocations.
        invocations: u64,
        /// Mean run time of functions.
        average_ms: Spread,
        /// Median run time of functions.
        median_ms: Spread,
        /// What a hundredth of a function's invocations exceeds.
        p99_ms: Spread,
    },
    /// Memory.
    Memory {
        /// Applications, or functions where the file has a row for each.
        rows: usize,
        /// Mean memory.
        average_mb: Spread,
        /// What a hundredth of the measurements exceeds.
        p99_mb: Spread,
    },
}

/// A trace to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedTrace {
    /// What its functions are drawn from.
    pub model: TrafficModel,
    /// How many.
    pub functions: usize,
    /// Minutes of each.
    pub minutes: usize,
    /// The same seed makes the same trace; more functions only add to it.
    pub seed: u64,
}

/// Reads a table whole and describes it.
pub fn inspect_trace(path: &Path, watch: &mut dyn FnMut(FileProgress)) -> Result<TableSummary> {
    read_trace(path, watch, |table| match table {
        TraceReader::Counts(mut reader) => {
            let mut figures = TraceFigures::default();
            while let Some(function) = reader.next_function()? {
                figures.add(&function.counts);
            }
            Ok(TableSummary::Counts(Box::new(figures.summary())))
        }
        TraceReader::Invocations(reader) => {
            let mut figures = TraceFigures::default();
            count_by_minute(reader)?.values().for_each(|calls| figures.add(&calls.counts));
            Ok(TableSummary::Counts(Box::new(figures.summary())))
        }
        TraceReader::Durations(mut reader) => {
            let (mut averages, mut medians, mut slowest) = (Vec::new(), Vec::new(), Vec::new());
            let mut invocations = 0u64;
            while let Some(summary) = reader.next_function()? {
                let [_, _, _, median, _, slow, _] = summary.percentiles_ms;
                averages.push(summary.average_ms);
                medians.push(median);
                slowest.push(slow);
                invocations = invocations.saturating_add(summary.count);
            }
            Ok(TableSummary::Durations {
                functions: medians.len(),
                invocations,
                average_ms: Spread::of(averages),
                median_ms: Spread::of(medians),
                p99_ms: Spread::of(slowest),
            })
        }
        TraceReader::Memory(mut reader) => {
            let (mut averages, mut largest) = (Vec::new(), Vec::new());
            while let Some(summary) = reader.next_app()? {
                let [.., large, _] = summary.percentiles_mb;
                averages.push(summary.average_mb);
                largest.push(large);
            }
            Ok(TableSummary::Memory {
                rows: averages.len(),
                average_mb: Spread::of(averages),
                p99_mb: Spread::of(largest),
            })
        }
    })
}

/// A model with the trace that it was fitted to.
#[derive(Debug, Clone)]
pub struct FittedModel {
    /// The model.
    pub model: TrafficModel,
    /// What the trace is like.
    figures: TraceFigures,
}

/// One figure of a trace beside those of traces from its model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FitRow {
    /// Its name.
    pub figure: &'static str,
    /// In the trace.
    pub trace: f64,
    /// The mean of the traces from the model.
    pub model: f64,
    /// The smallest of them.
    pub model_min: f64,
    /// The largest of them.
    pub model_max: f64,
    /// For figures over functions, the greatest difference of their distributions (Kolmogorov and
    /// Smirnov), from zero to one: the mean of the traces.
    pub distance: Option<f64>,
}

/// Traces from the model that a fit is judged by.
const JUDGED: u64 = 5;

impl FittedModel {
    /// How well traces from the model resemble its trace: as many functions and minutes, five seeds.
    pub fn goodness(&self) -> Vec<FitRow> {
        let own = self.figures.summary();
        let made: Vec<TraceFigures> = (1..=JUDGED)
            .into_par_iter()
            .map(|seed| {
                let mut figures = TraceFigures::default();
                let seeds = SeedTree::new(seed).child("trace");
                for function in 1..=own.functions {
                    let mut rng = seeds.stream(&format!("function/{function}"));
                    let rhythm = self.model.draw(&mut rng).rhythm;
                    figures.add(&rhythm.minute_counts(own.minutes, &mut rng));
                }
                figures
            })
            .collect();
        let summaries: Vec<TraceSummary> = made.iter().map(TraceFigures::summary).collect();
        let distances: Vec<_> =
            made.iter().map(|figures| distance(&self.figures, figures).named()).collect();
        let row = |figure: &'static str, of: &dyn Fn(&TraceSummary) -> f64| {
            let values: Vec<f64> = summaries.iter().map(of).collect();
            let over = homeostat_lab::Summary::of(&values).expect("there are several traces");
            let (model, model_min, model_max) = (over.mean, over.min, over.max);
            let place = distances[0].iter().position(|(name, _)| *name == figure);
            let distance = place.map(|place| {
                distances.iter().map(|named| named[place].1).sum::<f64>() / JUDGED as f64
            });
            FitRow { figure, trace: of(&own), model, model_min, model_max, distance }
        };
        vec![
            row("invocations", &|summary| summary.invocations as f64),
            row("peak_to_mean", &|summary| summary.peak_to_mean),
            row("top_1_share", &|summary| summary.top_1_share),
            row("top_10_share", &|summary| summary.top_10_share),
            row("per_minute", &|summary| summary.per_minute.p50),
            row("idle_share", &|summary| summary.idle_share.p50),
            row("dispersion", &|summary| summary.dispersion.p50),
            row("autocorrelation_1", &|summary| summary.autocorrelation_1.p50),
            row("autocorrelation_10", &|summary| summary.autocorrelation_10.p50),
            row("autocorrelation_60", &|summary| summary.autocorrelation_60.p50),
        ]
    }
}

/// Fits a model to tables of one trace: counts or invocations, and durations and memory if
/// they are given; else these are as in `otherwise`.
pub fn fit_trace(
    paths: &[PathBuf],
    otherwise: &TrafficModel,
    watch: &mut dyn FnMut(&Path, FileProgress),
) -> Result<FittedModel> {
    let mut fit = ModelFit::default();
    let mut figures = TraceFigures::default();
    for path in paths {
        read_trace(path, &mut |progress| watch(path, progress), |table| {
            match table {
                TraceReader::Counts(mut reader) => {
                    while let Some(function) = reader.next_function()? {
                        fit.add_counts(&function.counts);
                        figures.add(&function.counts);
                    }
                }
                TraceReader::Invocations(reader) => {
                    for calls in count_by_minute(reader)?.values() {
                        fit.add_counts(&calls.counts);
                        figures.add(&calls.counts);
                    }
                }
                TraceReader::Durations(mut reader) => {
                    while let Some(summary) = reader.next_function()? {
                        fit.add_durations(&summary);
                    }
                }
                TraceReader::Memory(mut reader) => {
                    while let Some(summary) = reader.next_app()? {
                        fit.add_memory(&summary);
                    }
                }
            }
            Ok(())
        })?;
    }
    let model = fit.finish(otherwise).map_err(|error| {
        let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        Error::Unreadable { source_text: names.join(", "), reason: error.to_string() }
    })?;
    Ok(FittedModel { model, figures })
}

/// The invocations of one function.
#[derive(Default)]
pub(crate) struct CountedCalls {
    /// In each minute.
    pub(crate) counts: Vec<u32>,
    /// Sum of their run times in seconds, and of the squares of these.
    seconds: f64,
    squares: f64,
}

impl CountedCalls {
    /// Mean run time, and the spread of a lognormal distribution with the same mean and variance.
    pub(crate) fn run_time(&self) -> (SimDuration, f64) {
        let calls = self.counts.iter().map(|count| f64::from(*count)).sum::<f64>().max(1.0);
        let mean = (self.seconds / calls).max(1e-3);
        let variation = (self.squares / calls / (mean * mean) - 1.0).max(0.0);
        let spread = variation.ln_1p().sqrt().clamp(0.0, 3.0);
        (SimDuration::from_nanos((mean * 1e9) as u64), spread)
    }
}

/// Requests per minute of each function, by application and name.
pub(crate) fn count_by_minute<R: std::io::BufRead>(
    mut reader: InvocationReader<R>,
) -> homeostat_load::Result<BTreeMap<(String, String), CountedCalls>> {
    let mut functions: BTreeMap<(String, String), CountedCalls> = BTreeMap::new();
    let (mut minutes, mut kept) = (0, 0);
    while let Some(invocation) = reader.next_invocation()? {
        let minute = minute_of(invocation.start);
        if minute >= MAX_MINUTES {
            return Err(homeostat_load::Error::Trace {
                line: reader.line(),
                column: "end_timestamp".to_owned(),
                reason: format!("minute {minute} is beyond the {MAX_MINUTES} that can be counted"),
            });
        }
        let minute = minute as usize;
        minutes = minutes.max(minute + 1);
        let calls = functions.entry((invocation.app, invocation.function)).or_default();
        let seconds = invocation.duration.seconds();
        calls.seconds += seconds;
        calls.squares += seconds * seconds;
        let counts = &mut calls.counts;
        kept += (minute + 1).saturating_sub(counts.len());
        counts.resize(counts.len().max(minute + 1), 0);
        counts[minute] = counts[minute].saturating_add(1);
        // A few bytes may ask for a function with a count for each minute of ten weeks.
        if kept.max(functions.len().saturating_mul(minutes)) > MAX_COUNTS {
            return Err(homeostat_load::Error::Trace {
                line: reader.line(),
                column: "all".to_owned(),
                reason: format!(
                    "{} functions in {minutes} minutes are more than the {MAX_COUNTS} counts that are kept: \
                     split the trace",
                    functions.len()
                ),
            });
        }
    }
    functions.values_mut().for_each(|calls| calls.counts.resize(minutes, 0));
    Ok(functions)
}

fn minute_of(time: SimTime) -> u64 {
    time.nanos() / MINUTE_NANOS
}

/// A model as a file that people can read and change.
pub fn model_to_toml(model: &TrafficModel) -> Result<String> {
    let reason = |error: toml::ser::Error| Error::Unreadable {
        source_text: "the fitted model".to_owned(),
        reason: error.to_string(),
    };
    toml::to_string(model).map_err(reason)
}

/// A model from such a file.
pub fn read_model(path: &Path) -> Result<TrafficModel> {
    let refused = |reason: String| Error::Unreadable {
        source_text: format!("file {}", path.display()),
        reason,
    };
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    if text.trim().is_empty() {
        return Err(refused("it is empty; `homeostat trace fit --out` writes a model".to_owned()));
    }
    let model: TrafficModel =
        toml::from_str(&text).map_err(|error| refused(error.to_string().trim_end().to_owned()))?;
    model.validate().map_err(|error| refused(error.to_string()))?;
    Ok(model)
}

/// Makes a trace and writes it as a table of requests per minute, as the trace of 2019 is.
/// The file is whole or absent. Reports the number of functions after each.
pub fn write_trace(
    path: &Path,
    trace: &GeneratedTrace,
    watch: &mut dyn FnMut(usize),
) -> Result<TraceSummary> {
    trace.validate()?;
    let partial = path.with_extension("partial");
    let mut figures = TraceFigures::default();
    let mut attempt = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(&partial)?);
        write!(file, "HashOwner,HashApp,HashFunction,Trigger")?;
        (1..=trace.minutes).try_for_each(|minute| write!(file, ",{minute}"))?;
        let seeds = SeedTree::new(trace.seed).child("trace");
        for function in 1..=trace.functions {
            let mut rng = seeds.stream(&format!("function/{function}"));
            let rhythm = trace.model.draw(&mut rng).rhythm;
            let counts = rhythm.minute_counts(trace.minutes, &mut rng);
            let trigger = match rhythm {
                Rhythm::Clock { .. } => "timer",
                Rhythm::Random { .. } => "others",
            };
            write!(file, "\nowner-{function},app-{function},function-{function},{trigger}")?;
            counts.iter().try_for_each(|count| write!(file, ",{count}"))?;
            figures.add(&counts);
            watch(function);
        }
        writeln!(file)?;
        file.into_inner()?.sync_all()?;
        fs::rename(&partial, path)
    };
    let result = attempt().map_err(file_error("write", path));
    if result.is_err() {
        // The error that counts is the first one.
        let _ = fs::remove_file(&partial);
    }
    result.map(|()| figures.summary())
}

impl GeneratedTrace {
    fn validate(&self) -> Result<()> {
        let refused = |key: &str, value: usize, expected: String| Error::OutOfRange {
            key: key.to_owned(),
            value: value.to_string(),
            source_text: format!("flag --{key}"),
            expected,
        };
        for (key, value) in [("functions", self.functions), ("minutes", self.minutes)] {
            if value == 0 {
                return Err(refused(key, value, "it must be 1 or more".to_owned()));
            }
        }
        // A line of more minutes could not be read again.
        if self.minutes as u64 > MAX_MINUTES {
            return Err(refused("minutes", self.minutes, format!("at most {MAX_MINUTES}")));
        }
        if self.functions > MAX_COUNTS / self.minutes {
            let most = MAX_COUNTS / self.minutes;
            let expected = format!("with {} minutes it must be at most {most}", self.minutes);
            return Err(refused("functions", self.functions, expected));
        }
        self.model.validate().map_err(|error| Error::Unreadable {
            source_text: "the model".to_owned(),
            reason: error.to_string(),
        })
    }
}
