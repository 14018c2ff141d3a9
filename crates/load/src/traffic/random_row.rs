//! A row of random counts with given figures.
//!
//! Runs of active minutes are laid out first, denser where the wave of a day is high; then the
//! requests beyond the first of each active minute are shared out by lognormal weights, whose
//! logarithms follow the same wave and wander from minute to minute besides. How strong the
//! wave is, how persistent the wandering and how wide both together, is found for the very
//! random numbers of this row: a few lognormal numbers are spread far less than their
//! distribution, and the expectation of a correlation says little about a single row.

use std::f64::consts::{SQRT_2, TAU};

use homeostat_core::Stream;

/// What the row shall be like.
pub(crate) struct Goal {
    /// Minutes with requests.
    pub(crate) active: usize,
    /// Runs of them.
    pub(crate) runs: usize,
    /// Requests beyond the first of each.
    pub(crate) rest: u64,
    /// Standard deviation over mean of these.
    pub(crate) spread: f64,
    /// Correlation with the next minute.
    pub(crate) autocorrelation_1: f64,
    /// Correlation with the minute an hour later.
    pub(crate) autocorrelation_60: f64,
}

/// The random numbers of a row.
pub(crate) struct RandomRow {
    goal: Goal,
    minutes: usize,
    /// The wave of a day, minute by minute: mean zero, variance one.
    wave: Vec<f64>,
    /// Where runs begin, as parts of the row, in order.
    begins: Vec<f64>,
    /// After which active minutes a run ends, but for the last.
    ends: Vec<usize>,
    /// What the wandering is made of, one normal number for each active minute.
    noise: Vec<f64>,
}

/// The logarithms of weights are at most this many normal numbers wide.
const WIDEST: f64 = 8.0;

/// The persistence of a wandering logarithm, at most.
const MAX_PERSISTENCE: f64 = 0.999;

/// The period of the wave. A wave that wanders with a memory of hours instead comes nearer to
/// the correlations of real functions over ten minutes, and less near to those over an hour.
const MINUTES_PER_DAY: f64 = 1440.0;

/// How much denser runs are where the strongest wave is high, as a factor's logarithm for
/// each standard deviation of the wave.
const STRONGEST_WAVE: f64 = 3.0;

/// Fewer active minutes than this show no tides.
const FEWEST_FOR_TIDES: usize = 4;

/// Minutes between counts whose correlation makes tides.
const HOUR: usize = 60;

impl RandomRow {
    pub(crate) fn new(goal: Goal, minutes: usize, rng: &mut Stream) -> Self {
        let noon = rng.uniform();
        let wave = (0..minutes)
            .map(|minute| {
                let days = minute as f64 / MINUTES_PER_DAY - noon;
                SQRT_2 * (TAU * days).cos()
            })
            .collect();
        let mut begins: Vec<f64> = (0..goal.runs).map(|_| rng.uniform()).collect();
        begins.sort_by(f64::total_cmp);
        let ends = choose(goal.runs - 1, goal.active - 1, rng);
        let noise = (0..goal.active).map(|_| rng.normal()).collect();
        Self { goal, minutes, wave, begins, ends, noise }
    }

    /// Writes the requests of each minute.
    pub(crate) fn fill(&self, counts: &mut [u32], rng: &mut Stream) {
        let goal = &self.goal;
        let has_tides = goal.active >= FEWEST_FOR_TIDES && self.minutes > 2 * HOUR;
        let tide = if has_tides && goal.autocorrelation_60 > 0.0 {
            bisect(0.0, 1.0, 7, |tide| {
                let places = self.places(tide);
                let weights = self.weights(&places, tide, 0.0);
                self.autocorrelation(&places, &weights, HOUR) < goal.autocorrelation_60
            })
        } else {
            0.0
        };
        let places = self.places(tide);
        let is_free = goal.rest > 0 && goal.active > 1;
        let weights = if is_free {
            let persistence = bisect(-MAX_PERSISTENCE, MAX_PERSISTENCE, 8, |persistence| {
                let weights = self.weights(&places, tide, persistence);
                self.autocorrelation(&places, &weights, 1) < goal.autocorrelation_1
            });
            self.weights(&places, tide, persistence)
        } else {
            vec![1.0; goal.active]
        };
        apportion(counts, &places, &weights, goal.rest, rng);
    }

    /// The active minutes, in runs.
    fn places(&self, tide: f64) -> Vec<usize> {
        // A run begins between two idle minutes, or at either end of the row.
        let slots = self.minutes - self.goal.active + 1;
        let mut sum = 0.0;
        let sums: Vec<f64> = (0..slots)
            .map(|slot| {
                let height = self.wave[slot * self.minutes / slots];
                sum += if tide > 0.0 { (STRONGEST_WAVE * tide * height).exp() } else { 1.0 };
                sum
            })
            .collect();
        let mut begins: Vec<usize> = Vec::with_capacity(self.begins.len());
        for (run, begin) in self.begins.iter().enumerate() {
            let slot = sums.partition_point(|until| *until <= begin * sum);
            let first = begins.last().map_or(0, |last| last + 1);
            let last = slots - (self.begins.len() - run);
            begins.push(slot.max(first).min(last));
        }
        let mut run = 0;
        let places = (0..self.goal.active).map(|minute| {
            let place = begins[run] + minute;
            run += usize::from(self.ends.get(run) == Some(&minute));
            place
        });
        places.collect()
    }

    /// Weights of the active minutes, with the wanted spread.
    fn weights(&self, places: &[usize], tide: f64, persistence: f64) -> Vec<f64> {
        let mut last = None;
        let mut wander = 0.0;
        let rest = (1.0 - tide * tide).sqrt();
        let logarithms: Vec<f64> = places
            .iter()
            .zip(&self.noise)
            .map(|(place, noise)| {
                let kept = last.map_or(0.0, |last| persistence.powi((place - last) as i32));
                wander = kept * wander + (1.0 - kept * kept).sqrt() * noise;
                last = Some(*place);
                tide * self.wave[*place] + rest * wander
            })
            .collect();
        let top = logarithms.iter().copied().fold(f64::MIN, f64::max);
        let widened = |scale: f64| -> Vec<f64> {
            logarithms.iter().map(|logarithm| (scale * (logarithm - top)).exp()).collect()
        };
        let scale =
            bisect(0.0, WIDEST, 10, |scale| relative_spread(&widened(scale)) < self.goal.spread);
        widened(scale)
    }

    /// Of the counts that these weights make, before they are whole.
    fn autocorrelation(&self, places: &[usize], weights: &[f64], lag: usize) -> f64 {
        let scale = self.goal.rest as f64 / weights.iter().sum::<f64>();
        let mut counts = vec![0.0; self.minutes];
        for (place, weight) in places.iter().zip(weights) {
            counts[*place] = 1.0 + scale * weight;
        }
        let mean = counts.iter().sum::<f64>() / self.minutes as f64;
        let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
        let later = counts.iter().skip(lag);
        let products: f64 =
            counts.iter().zip(later).map(|(count, later)| (count - mean) * (later - mean)).sum();
        products / squares
    }
}

/// One request for each place and the rest by weight, whole and exact in all.
fn apportion(counts: &mut [u32], places: &[usize], weights: &[f64], rest: u64, rng: &mut Stream) {
    let scale = rest as f64 / weights.iter().sum::<f64>();
    let (mut sum, mut given) = (rng.uniform(), 0);
    for (index, (place, weight)) in places.iter().zip(weights).enumerate() {
        sum += weight * scale;
        let is_last = index + 1 == places.len();
        let until = if is_last { rest } else { (sum as u64).clamp(given, rest) };
        counts[*place] = u32::try_from(1 + until - given).unwrap_or(u32::MAX);
        given = until;
    }
}

/// Where `is_below` turns false, if it does so once; after so many halvings of the range.
fn bisect(mut low: f64, mut high: f64, halvings: u32, is_below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..halvings {
        let middle = 0.5 * (low + high);
        if is_below(middle) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Standard deviation over mean.
fn relative_spread(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    variance.sqrt() / mean
}

/// So many different numbers below `below`, in order (Knuth's algorithm S).
fn choose(count: usize, below: usize, rng: &mut Stream) -> Vec<usize> {
    let mut chosen = Vec::with_capacity(count);
    for number in 0..below {
        if chosen.len() == count {
            break;
        }
        if rng.below(below - number) < count - chosen.len() {
            chosen.push(number);
        }
    }
    chosen
}
