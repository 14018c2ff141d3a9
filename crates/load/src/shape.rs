//! Shapes of load. All rates are in requests per second, all times in seconds.

use std::ops::RangeBounds;

use crate::{Error, Result};

/// The arrival rate over time.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadShape {
    /// Independent requests at a constant rate.
    Poisson {
        /// The rate.
        per_second: f64,
    },
    /// Requests at equal intervals.
    Flat {
        /// The rate.
        per_second: f64,
    },
    /// A rate whose logarithm is a first-order autoregressive process, sampled at equal intervals,
    /// so that rates persist over several of them.
    Fluctuating {
        /// Mean rate.
        per_second: f64,
        /// Standard deviation of the rate's logarithm.
        spread: f64,
        /// Correlation of one rate's logarithm with the next, below one.
        persistence: f64,
        /// Time between two rates.
        every_s: f64,
    },
    /// A sinusoidal rate.
    Diurnal {
        /// Mean rate.
        per_second: f64,
        /// Amplitude as a fraction of the mean, at most one.
        swing: f64,
        /// Length of a day.
        period_s: f64,
    },
    /// A Markov-modulated Poisson process with two states, calm and burst.
    Bursty {
        /// Rate while calm.
        calm_per_second: f64,
        /// Rate in a burst.
        burst_per_second: f64,
        /// Mean length of a calm period.
        calm_s: f64,
        /// Mean length of a burst.
        burst_s: f64,
    },
    /// A constant rate with one peak.
    Spike {
        /// Rate outside.
        base_per_second: f64,
        /// Rate inside.
        peak_per_second: f64,
        /// When the peak begins.
        start_s: f64,
        /// How long it lasts.
        length_s: f64,
    },
    /// Rates that change at given times; zero before the first.
    Steps(Vec<Level>),
}

/// One step of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// When it begins.
    pub start_s: f64,
    /// Its rate.
    pub per_second: f64,
}

impl LoadShape {
    /// An error for invalid rates and times.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Poisson { per_second } | Self::Flat { per_second } => {
                positive("per_second", *per_second)
            }
            Self::Fluctuating { per_second, spread, persistence, every_s } => {
                positive("per_second", *per_second)?;
                not_negative("spread", *spread)?;
                within("persistence", *persistence, 0.0..1.0, "from 0 to below 1")?;
                positive("every_s", *every_s)
            }
            Self::Diurnal { per_second, swing, period_s } => {
                positive("per_second", *per_second)?;
                within("swing", *swing, 0.0..=1.0, "from 0 to 1")?;
                positive("period_s", *period_s)
            }
            Self::Bursty { calm_per_second, burst_per_second, calm_s, burst_s } => {
                not_negative("calm_per_second", *calm_per_second)?;
                positive("burst_per_second", *burst_per_second)?;
                positive("calm_s", *calm_s)?;
                positive("burst_s", *burst_s)
            }
            Self::Spike { base_per_second, peak_per_second, start_s, length_s } => {
                not_negative("base_per_second", *base_per_second)?;
                positive("peak_per_second", *peak_per_second)?;
                not_negative("start_s", *start_s)?;
                positive("length_s", *length_s)
            }
            Self::Steps(levels) => {
                if levels.is_empty() {
                    return Err(Error::NoLevels);
                }
                for level in levels {
                    not_negative("start_s", level.start_s)?;
                    not_negative("per_second", level.per_second)?;
                }
                match levels.windows(2).find(|pair| pair[1].start_s <= pair[0].start_s) {
                    Some(pair) => Err(Error::LevelsOutOfOrder {
                        earlier: pair[0].start_s,
                        later: pair[1].start_s,
                    }),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The largest rate or time that is still exact in nanoseconds.
const MAX: f64 = 1e9;

fn within(
    setting: &'static str,
    value: f64,
    range: impl RangeBounds<f64>,
    expected: &'static str,
) -> Result<()> {
    if range.contains(&value) {
        Ok(())
    } else {
        Err(Error::OutOfRange { setting, expected, value })
    }
}

fn positive(setting: &'static str, value: f64) -> Result<()> {
    within(setting, value, f64::MIN_POSITIVE..MAX, "above 0 and below 1e9")
}

fn not_negative(setting: &'static str, value: f64) -> Result<()> {
    within(setting, value, 0.0..MAX, "from 0 to below 1e9")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_that_cannot_be_played_are_refused_with_the_value() {
        let check = |shape: LoadShape, expect: &str| {
            assert_eq!(shape.validate().unwrap_err().to_string(), expect);
        };
        check(
            LoadShape::Poisson { per_second: -1.0 },
            "load per_second must be above 0 and below 1e9, got -1",
        );
        check(
            LoadShape::Flat { per_second: f64::NAN },
            "load per_second must be above 0 and below 1e9, got NaN",
        );
        check(
            LoadShape::Diurnal { per_second: 1.0, swing: 2.0, period_s: 60.0 },
            "load swing must be from 0 to 1, got 2",
        );
        check(
            LoadShape::Fluctuating {
                per_second: 1.0,
                spread: 0.5,
                persistence: 1.0,
                every_s: 10.0,
            },
            "load persistence must be from 0 to below 1, got 1",
        );
        check(LoadShape::Steps(Vec::new()), "load has no levels: give at least one start and rate");
        let level = |start_s| Level { start_s, per_second: 1.0 };
        check(
            LoadShape::Steps(vec![level(5.0), level(5.0)]),
            "load levels must start one after the other: 5 s does not come after 5 s",
        );
    }
}
