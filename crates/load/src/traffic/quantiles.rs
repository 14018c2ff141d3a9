//! A distribution as a table of its quantiles: what a fit writes down and a generator draws
//! from.

use homeostat_core::Stream;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How many quantiles a table has.
const COUNT: usize = 11;

/// The quantiles [`Quantiles::LEVELS`] of a distribution. Between two of them values are
/// spread evenly, on a logarithmic scale where both are above zero.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "Vec<f64>")]
pub struct Quantiles([f64; COUNT]);

impl Quantiles {
    /// Which quantiles a table has: more of them in the tails, where the load is.
    pub const LEVELS: [f64; COUNT] = [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

    /// A table of the program itself.
    pub(crate) const fn known(values: [f64; COUNT]) -> Self {
        Self(values)
    }

    /// A table from outside; refuses values that are not finite, or fall.
    pub fn new(values: &[f64]) -> Result<Self> {
        let Ok(table) = <[f64; COUNT]>::try_from(values) else {
            let value = values.len() as f64;
            return Err(Error::OutOfRange {
                setting: "number of quantiles",
                expected: "11",
                value,
            });
        };
        let mut least = f64::MIN;
        for value in table {
            if !value.is_finite() || value < least {
                let expected = "finite and not below the one before";
                return Err(Error::OutOfRange { setting: "quantile", expected, value });
            }
            least = value;
        }
        Ok(Self(table))
    }

    /// The quantiles of a sample, to four digits; all zero, if it is empty. No trace says
    /// more, and a file of them stays readable.
    pub fn of(mut sample: Vec<f64>) -> Self {
        sample.sort_by(f64::total_cmp);
        Self(Self::LEVELS.map(|level| four_digits(sorted_quantile(&sample, level))))
    }

    /// The value that this part of the distribution lies below.
    pub fn at(&self, level: f64) -> f64 {
        let above = Self::LEVELS.partition_point(|known| *known <= level).clamp(1, COUNT - 1);
        let [low, high] = [self.0[above - 1], self.0[above]];
        let [from, to] = [Self::LEVELS[above - 1], Self::LEVELS[above]];
        let part = ((level - from) / (to - from)).clamp(0.0, 1.0);
        let value =
            if low > 0.0 { low * (high / low).powf(part) } else { low + (high - low) * part };
        // Rounding must not leave the table.
        value.clamp(low, high)
    }

    /// A random value.
    pub fn draw(&self, rng: &mut Stream) -> f64 {
        self.at(rng.uniform())
    }

    /// The table.
    pub fn values(&self) -> [f64; COUNT] {
        self.0
    }
}

impl TryFrom<Vec<f64>> for Quantiles {
    type Error = Error;
    fn try_from(values: Vec<f64>) -> Result<Self> {
        Self::new(&values)
    }
}

impl From<Quantiles> for Vec<f64> {
    fn from(quantiles: Quantiles) -> Self {
        quantiles.0.to_vec()
    }
}

/// The quantile of an ordered sample, interpolated; zero, if it is empty.
pub(crate) fn sorted_quantile(sample: &[f64], level: f64) -> f64 {
    let Some(last) = sample.len().checked_sub(1) else { return 0.0 };
    let place = level * last as f64;
    let below = (place as usize).min(last);
    let above = (below + 1).min(last);
    sample[below] + (sample[above] - sample[below]) * (place - below as f64)
}

/// The number next to this one that has four decimal digits.
pub(crate) fn four_digits(number: f64) -> f64 {
    format!("{number:.3e}").parse().unwrap_or(number)
}
