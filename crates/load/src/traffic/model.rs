//! A population of functions: how often each is called and in what rhythm, how long it runs
//! and how much memory it has.

use std::ops::RangeInclusive;

use homeostat_core::{Bytes, SimDuration, Stream};
use serde::{Deserialize, Serialize};

use crate::traffic::{Quantiles, Rhythm};
use crate::{Error, Result};

/// The distributions that functions are drawn from. Made by [`crate::traffic::ModelFit`] from
/// a trace, or built in ([`TrafficModel::azure_2019`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficModel {
    /// Part of the functions that a clock calls.
    pub clock_share: f64,
    /// Part of the requests of a clock that come a minute late.
    pub slip: Quantiles,
    /// Mean requests per minute of functions that are called at random.
    pub per_minute: Quantiles,
    /// Median run time of functions, in milliseconds.
    pub duration_median_ms: Quantiles,
    /// Standard deviation of the logarithm of a function's run times.
    pub duration_spread: Quantiles,
    /// Memory of functions, in mebibytes.
    pub memory_mib: Quantiles,
    /// The periods of clocks.
    pub clocks: Vec<ClockPeriod>,
    /// Rhythms of functions called at random, by rate: the rarest first.
    pub bands: Vec<RandomBand>,
}

/// Clocks with one period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockPeriod {
    /// The period.
    pub minutes: u32,
    /// How common it is, relative to the others.
    pub weight: f64,
    /// Requests of a batch.
    pub batch: Quantiles,
}

/// Rhythms of randomly called functions of about one rate. The words are those of
/// [`Rhythm::Random`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomBand {
    /// Part of the randomly called functions that are called as rarely as these, or rarer;
    /// one for the last band.
    pub up_to: f64,
    /// Requests of a minute that has any, over the least possible.
    pub bunching: Quantiles,
    /// How minutes with requests cling together.
    pub clinging: Quantiles,
    /// How unequal they are.
    pub spread: Quantiles,
    /// Correlation of one minute's requests with the next.
    pub autocorrelation_1: Quantiles,
    /// Correlation with those an hour later.
    pub autocorrelation_60: Quantiles,
}

/// One function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FunctionTraffic {
    /// When it is called.
    pub rhythm: Rhythm,
    /// How long it runs.
    pub duration: DurationModel,
    /// Its memory.
    pub memory: Bytes,
}

/// Lognormal run times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DurationModel {
    /// Half of the invocations are shorter.
    pub median: SimDuration,
    /// Standard deviation of their logarithm.
    pub spread: f64,
}

impl TrafficModel {
    /// Refuses what cannot be drawn from.
    pub fn validate(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.clock_share) {
            return Err(refused("clock_share", "from 0 to 1", self.clock_share));
        }
        if self.clock_share > 0.0 && self.clocks.is_empty() {
            return Err(refused("clock_share", "0 where there are no clocks", self.clock_share));
        }
        if self.clock_share < 1.0 && self.bands.is_empty() {
            return Err(refused("clock_share", "1 where there are no bands", self.clock_share));
        }
        within("slip", &self.slip, 0.0..=1.0, "from 0 to 1")?;
        within("per_minute", &self.per_minute, 0.0..=1e6, "from 0 to 1000000")?;
        // A day.
        let medians = &self.duration_median_ms;
        within("duration_median_ms", medians, 0.0..=86.4e6, "from 0 to 86400000")?;
        within("duration_spread", &self.duration_spread, 0.0..=10.0, "from 0 to 10")?;
        // A tebibyte.
        within("memory_mib", &self.memory_mib, 0.0..=1_048_576.0, "from 0 to 1048576")?;
        self.clocks.iter().try_for_each(ClockPeriod::validate)?;
        let mut up_to = 0.0;
        for band in &self.bands {
            if !(band.up_to > up_to && band.up_to <= 1.0) {
                return Err(refused("bands.up_to", "above the one before, to 1", band.up_to));
            }
            up_to = band.up_to;
            band.validate()?;
        }
        Ok(())
    }

    /// A random function. The model must be valid.
    pub fn draw(&self, rng: &mut Stream) -> FunctionTraffic {
        let rhythm = if rng.uniform() < self.clock_share {
            self.draw_clock(rng)
        } else {
            self.draw_random(rng)
        };
        let median_s = self.duration_median_ms.draw(rng) / 1e3;
        FunctionTraffic {
            rhythm,
            duration: DurationModel {
                median: SimDuration::from_seconds(median_s).unwrap_or(SimDuration::ZERO),
                spread: self.duration_spread.draw(rng),
            },
            memory: Bytes::new((self.memory_mib.draw(rng) * 1_048_576.0) as u64),
        }
    }

    fn draw_clock(&self, rng: &mut Stream) -> Rhythm {
        let sum: f64 = self.clocks.iter().map(|clock| clock.weight).sum();
        let mut rest = rng.uniform() * sum;
        let mut drawn = &self.clocks[0];
        for clock in &self.clocks {
            drawn = clock;
            rest -= clock.weight;
            if rest < 0.0 {
                break;
            }
        }
        Rhythm::Clock {
            period_minutes: drawn.minutes,
            batch: drawn.batch.draw(rng).round().max(1.0) as u32,
            slip: self.slip.draw(rng),
        }
    }

    fn draw_random(&self, rng: &mut Stream) -> Rhythm {
        let rank = rng.uniform();
        let last = self.bands.len() - 1;
        let band = &self.bands[self.bands.partition_point(|band| band.up_to <= rank).min(last)];
        // Minutes that cling together are correlated, and so are those of a tide: one random
        // number for all three.
        let together = rng.uniform();
        Rhythm::Random {
            per_minute: self.per_minute.at(rank),
            bunching: band.bunching.draw(rng),
            clinging: band.clinging.at(together),
            spread: band.spread.draw(rng),
            autocorrelation_1: band.autocorrelation_1.at(together),
            autocorrelation_60: band.autocorrelation_60.at(together),
        }
    }
}

impl ClockPeriod {
    fn validate(&self) -> Result<()> {
        if self.minutes == 0 {
            return Err(refused("clocks.minutes", "1 or more", 0.0));
        }
        if !self.weight.is_finite() || self.weight <= 0.0 {
            return Err(refused("clocks.weight", "finite and above 0", self.weight));
        }
        within("clocks.batch", &self.batch, 0.0..=1e6, "from 0 to 1000000")
    }
}

impl RandomBand {
    fn validate(&self) -> Result<()> {
        let correlation =
            |setting, quantiles| within(setting, quantiles, -1.0..=1.0, "from -1 to 1");
        within("bands.bunching", &self.bunching, 0.0..=1e6, "from 0 to 1000000")?;
        within("bands.spread", &self.spread, 0.0..=1e3, "from 0 to 1000")?;
        correlation("bands.clinging", &self.clinging)?;
        correlation("bands.autocorrelation_1", &self.autocorrelation_1)?;
        correlation("bands.autocorrelation_60", &self.autocorrelation_60)
    }
}

impl DurationModel {
    /// The mean, which a wide spread lifts far above the median.
    pub fn mean(&self) -> SimDuration {
        self.scaled((0.5 * self.spread * self.spread).exp())
    }

    /// A random run time.
    pub fn draw(&self, rng: &mut Stream) -> SimDuration {
        self.scaled((self.spread * rng.normal()).exp())
    }

    fn scaled(&self, factor: f64) -> SimDuration {
        let longest = SimDuration::from_nanos(u64::MAX);
        SimDuration::from_seconds(self.median.seconds() * factor).unwrap_or(longest)
    }
}

/// Refuses a distribution that leaves its range.
fn within(
    setting: &'static str,
    quantiles: &Quantiles,
    range: RangeInclusive<f64>,
    expected: &'static str,
) -> Result<()> {
    let ends = [quantiles.at(0.0), quantiles.at(1.0)];
    match ends.into_iter().find(|end| !range.contains(end)) {
        Some(end) => Err(refused(setting, expected, end)),
        None => Ok(()),
    }
}

fn refused(setting: &'static str, expected: &'static str, value: f64) -> Error {
    Error::OutOfRange { setting, expected, value }
}
