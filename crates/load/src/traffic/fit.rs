//! From a trace to the model that resembles it. Each function is told apart as called by a
//! clock or at random and described by the figures of [`Rhythm`](crate::traffic::Rhythm);
//! the model is the quantiles of these descriptions.

use std::collections::BTreeMap;

use crate::trace::{DurationSummary, MemorySummary};
use crate::traffic::quantiles::four_digits;
use crate::traffic::{ClockPeriod, FunctionFigures, Quantiles, RandomBand, TrafficModel};
use crate::{Error, Result};

/// Periods that people give to timers, in minutes.
const PERIODS: [usize; 17] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 60, 120, 180, 240, 360];

/// Bands of rate in a fitted model, narrower where the load is.
const BANDS: [f64; 6] = [0.25, 0.5, 0.7, 0.85, 0.95, 1.0];

/// Fewer batches than this can be regular by chance.
const FEWEST_BATCHES: usize = 4;

/// Batches of a clock vary less than a Poisson process, whose variance equals its mean, by
/// this factor at least. Requests that slip by chance into the next minute reach a half.
const MAX_DISPERSION: f64 = 0.55;

/// Large batches of a clock vary by less than a third of their size: the square of it.
const MAX_VARIANCE: f64 = 0.1;

/// Part of the requests that come in a clock's minute or the one after.
const MIN_PUNCTUAL: f64 = 0.9;

/// The slowest hundredth of fewer invocations than this is hardly slower than their median.
const FEWEST_INVOCATIONS: u64 = 50;

/// A variance of whole numbers below this is an error of the sum.
const ROUNDING_ERROR: f64 = 1e-9;

/// Standard normal quantile of 0.99.
const NORMAL_99: f64 = 2.326;

/// Collects a trace, function by function, and fits a model to it.
#[derive(Debug, Clone, Default)]
pub struct ModelFit {
    clocks: Vec<Clock>,
    random: Vec<Random>,
    medians_ms: Vec<f64>,
    spreads: Vec<f64>,
    memory_mib: Vec<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Clock {
    period: usize,
    batch: f64,
    slip: f64,
}

#[derive(Debug, Clone, Copy)]
struct Random {
    per_minute: f64,
    bunching: f64,
    clinging: f64,
    /// Absent where no minute has more than one request.
    spread: Option<f64>,
    autocorrelation_1: f64,
    autocorrelation_60: f64,
}

impl ModelFit {
    /// Takes in one function's requests per minute; one that was never called is left out.
    pub fn add_counts(&mut self, counts: &[u32]) {
        if counts.iter().all(|count| *count == 0) {
            return;
        }
        match find_clock(counts) {
            Some(clock) => self.clocks.push(clock),
            None => self.random.push(describe(counts)),
        }
    }

    /// Takes in one function's run times.
    pub fn add_durations(&mut self, summary: &DurationSummary) {
        let [_, _, _, median, _, slow, _] = summary.percentiles_ms;
        // The trace rounds to milliseconds; half of one stands for less.
        let median = median.max(0.5);
        self.medians_ms.push(median);
        if summary.count < FEWEST_INVOCATIONS {
            return;
        }
        self.spreads.push((slow / median).max(1.0).ln() / NORMAL_99);
    }

    /// Takes in one application's memory.
    pub fn add_memory(&mut self, summary: &MemorySummary) {
        self.memory_mib.push(summary.average_mb);
    }

    /// The model. What was not taken in, durations or memory, is as in `otherwise`.
    pub fn finish(self, otherwise: &TrafficModel) -> Result<TrafficModel> {
        let functions = self.clocks.len() + self.random.len();
        if functions == 0 {
            let expected = "at least one, called at least once";
            return Err(Error::OutOfRange { setting: "functions", expected, value: 0.0 });
        }
        let or = |sample: Vec<f64>, otherwise: Quantiles| {
            if sample.is_empty() { otherwise } else { Quantiles::of(sample) }
        };
        let slips = self.clocks.iter().map(|clock| clock.slip).collect();
        let rates = self.random.iter().map(|random| random.per_minute).collect();
        let model = TrafficModel {
            clock_share: four_digits(self.clocks.len() as f64 / functions as f64),
            slip: Quantiles::of(slips),
            per_minute: Quantiles::of(rates),
            duration_median_ms: or(self.medians_ms, otherwise.duration_median_ms),
            duration_spread: or(self.spreads, otherwise.duration_spread),
            memory_mib: or(self.memory_mib, otherwise.memory_mib),
            clocks: periods(&self.clocks),
            bands: bands(self.random),
        };
        model.validate()?;
        Ok(model)
    }
}

fn periods(clocks: &[Clock]) -> Vec<ClockPeriod> {
    let mut batches: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for clock in clocks {
        batches.entry(clock.period).or_default().push(clock.batch);
    }
    batches
        .into_iter()
        .map(|(period, batches)| ClockPeriod {
            minutes: period as u32,
            weight: four_digits(batches.len() as f64 / clocks.len() as f64),
            batch: Quantiles::of(batches),
        })
        .collect()
}

fn bands(mut random: Vec<Random>) -> Vec<RandomBand> {
    random.sort_by(|a, b| a.per_minute.total_cmp(&b.per_minute));
    let mut from = 0;
    let mut bands = Vec::new();
    for up_to in BANDS {
        let until = (up_to * random.len() as f64).round() as usize;
        let part = &random[from..until];
        if part.is_empty() {
            continue;
        }
        from = until;
        let quantiles =
            |of: fn(&Random) -> Option<f64>| Quantiles::of(part.iter().filter_map(of).collect());
        bands.push(RandomBand {
            up_to,
            bunching: quantiles(|random| Some(random.bunching)),
            clinging: quantiles(|random| Some(random.clinging)),
            spread: quantiles(|random| random.spread),
            autocorrelation_1: quantiles(|random| Some(random.autocorrelation_1)),
            autocorrelation_60: quantiles(|random| Some(random.autocorrelation_60)),
        });
    }
    bands
}

/// The shortest period whose batches are punctual and alike.
fn find_clock(counts: &[u32]) -> Option<Clock> {
    let total: f64 = counts.iter().map(|count| f64::from(*count)).sum();
    PERIODS.into_iter().find_map(|period| {
        let batches = counts.len() / period;
        if batches < FEWEST_BATCHES || total < FEWEST_BATCHES as f64 {
            return None;
        }
        let mut phases = vec![0.0; period];
        for (minute, count) in counts.iter().enumerate() {
            phases[minute % period] += f64::from(*count);
        }
        let pair = |phase: usize| phases[phase] + phases[(phase + 1) % period];
        let phase = (0..period).max_by(|a, b| pair(*a).total_cmp(&pair(*b)))?;
        let punctual = if period == 1 { total } else { pair(phase) };
        let sizes: Vec<f64> = counts[phase..]
            .chunks_exact(period)
            .map(|cycle| cycle.iter().map(|count| f64::from(*count)).sum())
            .collect();
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        let variance =
            sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / sizes.len() as f64;
        let dispersion = variance / mean;
        // In periods of two minutes every function is punctual, so that only the strict rule holds.
        let is_alike =
            dispersion <= MAX_DISPERSION || (period > 2 && variance <= MAX_VARIANCE * mean * mean);
        // A clock strikes every time: less than one request in a period is chance.
        let is_clock = mean > 0.75 && is_alike && punctual >= MIN_PUNCTUAL * total;
        is_clock.then(|| Clock {
            period,
            batch: mean.round().max(1.0),
            slip: if period == 1 {
                // Independent slips at a share p make a dispersion of 2 p (1 - p).
                0.5 * (1.0 - (1.0 - 2.0 * dispersion).max(0.0).sqrt())
            } else {
                // A batch that is mostly late is one that is sometimes early.
                phases[phase].min(phases[(phase + 1) % period]) / punctual
            },
        })
    })
}

fn describe(counts: &[u32]) -> Random {
    let minutes = counts.len() as f64;
    let sizes: Vec<f64> =
        counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count)).collect();
    let active = sizes.len() as f64;
    let total: f64 = sizes.iter().sum();
    let per_minute = total / minutes;
    let is_begin = |minute: usize| counts[minute] > 0 && (minute == 0 || counts[minute - 1] == 0);
    let runs = (0..counts.len()).filter(|minute| is_begin(*minute)).count() as f64;
    let idle_share = 1.0 - active / minutes;
    let clinging = if idle_share > 0.0 { 1.0 - runs / (active * idle_share) } else { 0.0 };
    // What is unequal beyond whole numbers next to the mean.
    let beyond = total / active - 1.0;
    let variance = sizes.iter().map(|size| (size - 1.0 - beyond).powi(2)).sum::<f64>() / active;
    let rounding = beyond.fract() * (1.0 - beyond.fract());
    let unequal = if variance - rounding > ROUNDING_ERROR { variance - rounding } else { 0.0 };
    let [next_minute, _, next_hour] = FunctionFigures::of(counts).autocorrelation;
    Random {
        per_minute,
        bunching: (total / active) / per_minute.max(1.0),
        clinging: clinging.clamp(-1.0, 1.0),
        spread: (beyond > 0.0).then(|| unequal.sqrt() / beyond),
        autocorrelation_1: next_minute,
        autocorrelation_60: next_hour,
    }
}
