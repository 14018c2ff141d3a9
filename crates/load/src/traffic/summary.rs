//! A trace at a glance, and how far two traces are apart.

use serde::Serialize;

use crate::traffic::FunctionFigures;
use crate::traffic::quantiles::sorted_quantile;

/// The figures of every function of a trace, taken in one by one; the counts are not kept.
#[derive(Debug, Clone, Default)]
pub struct TraceFigures {
    functions: Vec<FunctionFigures>,
    /// Requests of all functions in each minute.
    minutes: Vec<u64>,
}

/// A trace at a glance. Quantiles are over its functions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceSummary {
    /// Functions.
    pub functions: usize,
    /// Functions without a request.
    pub silent_functions: usize,
    /// Minutes.
    pub minutes: usize,
    /// Requests.
    pub invocations: u64,
    /// Minutes in which no function was called.
    pub silent_minutes: usize,
    /// The most of these in a row.
    pub longest_gap_minutes: usize,
    /// The fullest minute of the whole trace over its mean one.
    pub peak_to_mean: f64,
    /// Part of the requests that go to the busiest function.
    pub top_1_share: f64,
    /// Part of the requests that go to the ten busiest.
    pub top_10_share: f64,
    /// Part of the requests that go to the busiest hundredth of the functions.
    pub top_percent_share: f64,
    /// Requests per minute.
    pub per_minute: Spread,
    /// Part of the minutes without a request.
    pub idle_share: Spread,
    /// Variance of requests per minute over their mean.
    pub dispersion: Spread,
    /// A function's fullest minute over its mean one.
    pub function_peak_to_mean: Spread,
    /// Correlation with the next minute.
    pub autocorrelation_1: Spread,
    /// Correlation with the minute ten later.
    pub autocorrelation_10: Spread,
    /// Correlation with the minute an hour later.
    pub autocorrelation_60: Spread,
}

/// A few quantiles over functions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The lowest.
    pub min: f64,
    /// A quarter is below.
    pub p25: f64,
    /// Half is below.
    pub p50: f64,
    /// Three quarters are below.
    pub p75: f64,
    /// All but a tenth is below.
    pub p90: f64,
    /// All but a hundredth is below.
    pub p99: f64,
    /// The highest.
    pub max: f64,
}

/// How far the functions of two traces are apart: for each figure the greatest difference of
/// the two distributions (Kolmogorov and Smirnov), from zero to one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distance {
    /// Requests per minute.
    pub per_minute: f64,
    /// Part of the minutes without a request.
    pub idle_share: f64,
    /// Variance of requests per minute over their mean.
    pub dispersion: f64,
    /// Correlation with the next minute, in whole hundredths.
    pub autocorrelation_1: f64,
    /// Correlation with the minute ten later.
    pub autocorrelation_10: f64,
    /// Correlation with the minute an hour later.
    pub autocorrelation_60: f64,
}

impl Distance {
    /// Each distance with the name of its figure.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("per_minute", self.per_minute),
            ("idle_share", self.idle_share),
            ("dispersion", self.dispersion),
            ("autocorrelation_1", self.autocorrelation_1),
            ("autocorrelation_10", self.autocorrelation_10),
            ("autocorrelation_60", self.autocorrelation_60),
        ]
    }
}

impl Spread {
    /// Of a sample; all zero, if it is empty.
    pub fn of(mut sample: Vec<f64>) -> Self {
        sample.sort_by(f64::total_cmp);
        let at = |level: f64| sorted_quantile(&sample, level);
        Self {
            min: at(0.0),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

impl TraceFigures {
    /// Takes in one function's requests per minute.
    pub fn add(&mut self, counts: &[u32]) {
        self.functions.push(FunctionFigures::of(counts));
        self.minutes.resize(self.minutes.len().max(counts.len()), 0);
        for (sum, count) in self.minutes.iter_mut().zip(counts) {
            *sum += u64::from(*count);
        }
    }

    /// The figures of each function.
    pub fn functions(&self) -> &[FunctionFigures] {
        &self.functions
    }

    /// All of them together.
    pub fn summary(&self) -> TraceSummary {
        let invocations: u64 = self.minutes.iter().sum();
        let share =
            |part: u64| if invocations > 0 { part as f64 / invocations as f64 } else { 0.0 };
        let mut loads: Vec<u64> = self.functions.iter().map(|figures| figures.requests).collect();
        loads.sort_unstable_by(|a, b| b.cmp(a));
        let top = |count: usize| share(loads.iter().take(count).sum());
        let mean = invocations as f64 / self.minutes.len().max(1) as f64;
        let peak = self.minutes.iter().copied().max().unwrap_or(0) as f64;
        let silent = self.minutes.split(|count| *count > 0).map(<[u64]>::len);
        TraceSummary {
            functions: self.functions.len(),
            silent_functions: loads.iter().filter(|load| **load == 0).count(),
            minutes: self.minutes.len(),
            invocations,
            silent_minutes: silent.clone().sum(),
            longest_gap_minutes: silent.max().unwrap_or(0),
            peak_to_mean: if mean > 0.0 { peak / mean } else { 0.0 },
            top_1_share: top(1),
            top_10_share: top(10),
            top_percent_share: top(loads.len().div_ceil(100)),
            per_minute: self.spread(|figures| figures.per_minute),
            idle_share: self.spread(|figures| figures.idle_share),
            dispersion: self.spread(|figures| figures.dispersion),
            function_peak_to_mean: self.spread(|figures| figures.peak_to_mean),
            autocorrelation_1: self.spread(|figures| figures.autocorrelation[0]),
            autocorrelation_10: self.spread(|figures| figures.autocorrelation[1]),
            autocorrelation_60: self.spread(|figures| figures.autocorrelation[2]),
        }
    }

    fn spread(&self, of: fn(&FunctionFigures) -> f64) -> Spread {
        Spread::of(self.functions.iter().map(of).collect())
    }

    fn sorted(&self, of: fn(&FunctionFigures) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = self.functions.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

/// How far two traces are apart. They should have equally many minutes: a rare function is
/// seen at different rates in an hour and in a day.
pub fn distance(a: &TraceFigures, b: &TraceFigures) -> Distance {
    let of = |figure: fn(&FunctionFigures) -> f64| {
        greatest_difference(&a.sorted(figure), &b.sorted(figure))
    };
    Distance {
        per_minute: of(|figures| figures.per_minute),
        idle_share: of(|figures| figures.idle_share),
        dispersion: of(|figures| figures.dispersion),
        // Whole hundredths: most functions are nearly uncorrelated, and which side of zero they
        // lie on is chance.
        autocorrelation_1: of(|figures| (figures.autocorrelation[0] * 100.0).round()),
        autocorrelation_10: of(|figures| (figures.autocorrelation[1] * 100.0).round()),
        autocorrelation_60: of(|figures| (figures.autocorrelation[2] * 100.0).round()),
    }
}

/// The Kolmogorov-Smirnov distance of two ordered samples; one, if either is empty.
fn greatest_difference(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let below = |sample: &[f64], value: f64| {
        sample.partition_point(|own| *own <= value) as f64 / sample.len() as f64
    };
    a.iter().chain(b).map(|value| (below(a, *value) - below(b, *value)).abs()).fold(0.0, f64::max)
}
