//! Service-level objectives (SLOs) for latency.

use std::fmt;

use crate::{Error, Fraction, Result, SimDuration};

/// A fraction of the requests that must finish within a threshold, for example p99 within 100 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slo {
    percentile: Fraction,
    threshold: SimDuration,
}

impl Slo {
    /// An error for a percentile outside (0, 100) % or a threshold of zero.
    pub fn try_new(percentile: Fraction, threshold: SimDuration) -> Result<Self> {
        if percentile == Fraction::ZERO || percentile >= Fraction::ONE {
            return Err(Error::Objective {
                what: "percentile must lie between 0% and 100%, both excluded",
                value: percentile.to_string(),
            });
        }
        if threshold == SimDuration::ZERO {
            return Err(Error::Objective {
                what: "threshold must be longer than zero",
                value: threshold.to_string(),
            });
        }
        Ok(Self { percentile, threshold })
    }

    /// The fraction of requests that must finish within the threshold.
    pub fn percentile(&self) -> Fraction {
        self.percentile
    }

    /// The longest latency that meets the SLO.
    pub fn threshold(&self) -> SimDuration {
        self.threshold
    }

    /// The SLO preservation ratio, a feature of SIMPPO and AWARE: threshold over measured latency,
    /// one where the SLO is met.
    pub fn preservation(&self, measured: SimDuration) -> Fraction {
        if measured <= self.threshold {
            return Fraction::ONE;
        }
        let ratio = self.threshold.nanos() as f64 / measured.nanos() as f64;
        Fraction::from_ratio(ratio).expect("a ratio of a smaller to a larger number is in [0, 1]")
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{} <= {}", self.percentile.percent(), self.threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preservation_is_one_while_kept_and_falls_with_the_overshoot() {
        let slo = Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(100)).unwrap();
        let check = |millis, expect| {
            assert_eq!(slo.preservation(SimDuration::from_millis(millis)).ratio(), expect);
        };
        check(0, 1.0);
        check(100, 1.0);
        check(200, 0.5);
        check(400, 0.25);
        assert_eq!(slo.to_string(), "p99 <= 100ms");
    }

    #[test]
    fn objectives_nobody_can_measure_are_refused() {
        let second = SimDuration::from_secs(1);
        assert!(Slo::try_new(Fraction::ONE, second).is_err());
        assert!(Slo::try_new(Fraction::ZERO, second).is_err());
        assert!(Slo::try_new(Fraction::from_percent(99), SimDuration::ZERO).is_err());
    }
}
