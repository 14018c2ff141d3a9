//! When one function is called: by a clock, or from outside.
//!
//! Both kinds give whole requests per minute. What a function's figures say of the
//! randomly called is kept exactly, not on average: its requests in all, its minutes with
//! requests, how these cling together, and how unequal they are. Most functions are called a
//! few times a day, where averages say nothing about a single row.

use homeostat_core::Stream;

use crate::traffic::random_row::{Goal, RandomRow};

/// The pattern of one function's requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rhythm {
    /// Batches at equal distances.
    Clock {
        /// Minutes from one batch to the next.
        period_minutes: u32,
        /// Requests of a batch.
        batch: u32,
        /// Part of the requests that come in the minute after.
        slip: f64,
    },
    /// Minutes with requests at random, alone or in runs.
    Random {
        /// Mean requests per minute.
        per_minute: f64,
        /// Requests of a minute that has any, over the least that this rate allows
        /// (`per_minute`, but not below one).
        bunching: f64,
        /// Part by which there are fewer runs of minutes than independent minutes would
        /// make; the correlation of a minute having requests with the next one having some.
        clinging: f64,
        /// Standard deviation over mean of the requests of a minute beyond its first.
        spread: f64,
        /// Correlation of the requests of a minute with those of the next; this and the
        /// following are reached as far as the other figures allow.
        autocorrelation_1: f64,
        /// Correlation with the minute an hour later: the tides of a day.
        autocorrelation_60: f64,
    },
}

impl Rhythm {
    /// Mean requests per minute.
    pub fn per_minute(&self) -> f64 {
        match *self {
            Self::Clock { period_minutes, batch, .. } => {
                f64::from(batch) / f64::from(period_minutes.max(1))
            }
            Self::Random { per_minute, .. } => per_minute,
        }
    }

    /// Requests in each of so many minutes; at least one in all, since a trace lists only
    /// functions that were called.
    pub fn minute_counts(&self, minutes: usize, rng: &mut Stream) -> Vec<u32> {
        let mut counts = vec![0; minutes];
        if minutes == 0 {
            return counts;
        }
        match *self {
            Self::Clock { period_minutes, batch, slip } => {
                strike(&mut counts, period_minutes.max(1) as usize, batch.max(1), slip, rng);
            }
            Self::Random {
                per_minute,
                bunching,
                clinging,
                spread,
                autocorrelation_1,
                autocorrelation_60,
            } => {
                let total = whole(per_minute * minutes as f64, rng).max(1);
                let size = bunching.max(1.0) * per_minute.max(1.0);
                let most = total.min(minutes as u64) as usize;
                let active = ((total as f64 / size).round() as usize).clamp(1, most);
                let idle = minutes - active;
                // Independent minutes would make a run for each active one that follows an
                // idle one.
                let runs = active as f64 * (idle as f64 / minutes as f64) * (1.0 - clinging);
                let goal = Goal {
                    active,
                    runs: (whole(runs, rng) as usize).clamp(1, active.min(idle + 1)),
                    rest: total - active as u64,
                    spread,
                    autocorrelation_1,
                    autocorrelation_60,
                };
                RandomRow::new(goal, minutes, rng).fill(&mut counts, rng);
            }
        }
        counts
    }
}

/// Batches from a random phase on.
fn strike(counts: &mut [u32], period: usize, batch: u32, slip: f64, rng: &mut Stream) {
    let phase = rng.below(period.min(counts.len()));
    // What slips out of the last minute slips into the first: the trace is a piece of a
    // longer one.
    for minute in (phase..counts.len()).step_by(period) {
        let late = binomial(batch, slip, rng);
        counts[minute] += batch - late;
        let next = (minute + 1) % counts.len();
        counts[next] += late;
    }
}

/// A whole number with this mean, next to it.
fn whole(mean: f64, rng: &mut Stream) -> u64 {
    (mean + rng.uniform()) as u64
}

/// How many of so many happen; by the normal approximation, where they are many.
fn binomial(trials: u32, probability: f64, rng: &mut Stream) -> u32 {
    if probability <= 0.0 {
        return 0;
    }
    let mean = f64::from(trials) * probability;
    if trials > 64 {
        let drawn = mean + (mean * (1.0 - probability)).max(0.0).sqrt() * rng.normal();
        return (drawn.round().max(0.0) as u32).min(trials);
    }
    (0..trials).map(|_| u32::from(rng.uniform() < probability)).sum()
}
