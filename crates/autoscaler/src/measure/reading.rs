//! One measured number with its source, and what can be wrong with it.

use std::fmt;

use homeostat_core::{SimDuration, SimTime};

/// Where a number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The metrics API of the cluster.
    MetricsApi,
    /// A Prometheus query.
    Prometheus,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MetricsApi => "metrics.k8s.io",
            Self::Prometheus => "prometheus",
        })
    }
}

/// One number, measured by its source at a time of the source's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The number.
    pub value: f64,
    /// When it was measured.
    pub at: SimTime,
    /// Where it comes from.
    pub source: Source,
}

/// Why a number cannot be used.
#[derive(Debug, Clone, PartialEq)]
pub enum Problem {
    /// The source did not answer, or not in time.
    Unreachable {
        /// Which source.
        source: Source,
        /// Its error in short.
        why: String,
    },
    /// The source has no such number.
    Missing {
        /// Which source.
        source: Source,
    },
    /// There are several numbers where one is needed.
    Ambiguous {
        /// How many.
        series: usize,
    },
    /// It is too old.
    Stale {
        /// How old.
        age: SimDuration,
        /// The maximum age.
        max: SimDuration,
    },
    /// Its time is in the future: a clock is wrong.
    FromTheFuture {
        /// By how much.
        ahead: SimDuration,
    },
    /// It is negative, infinite or not a number.
    NotAnAmount {
        /// The number.
        value: f64,
    },
    /// It contradicts other metrics.
    Contradictory {
        /// The contradiction.
        why: &'static str,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { source, why } => write!(f, "{source} does not answer: {why}"),
            Self::Missing { source } => write!(f, "{source} has no such metric"),
            Self::Ambiguous { series } => write!(
                f,
                "the query returns {series} series: reduce them to one, as with sum() or max()"
            ),
            Self::Stale { age, max } => {
                write!(f, "{:.0}s old, at most {:.0}s are allowed", age.seconds(), max.seconds())
            }
            Self::FromTheFuture { ahead } => {
                write!(
                    f,
                    "{:.0}s ahead of the operator's clock: one of them is wrong",
                    ahead.seconds()
                )
            }
            Self::NotAnAmount { value } => write!(f, "{value} is not a valid amount"),
            Self::Contradictory { why } => f.write_str(why),
        }
    }
}

impl Reading {
    /// The reading, unless it is invalid, stale or from the future.
    pub fn judge(
        self,
        now: SimTime,
        max_age: SimDuration,
        clock_skew: SimDuration,
    ) -> Result<Self, Problem> {
        if !self.value.is_finite() || self.value < 0.0 {
            return Err(Problem::NotAnAmount { value: self.value });
        }
        let age = now.saturating_since(self.at);
        if age > max_age {
            return Err(Problem::Stale { age, max: max_age });
        }
        let ahead = self.at.saturating_since(now);
        if ahead > clock_skew {
            return Err(Problem::FromTheFuture { ahead });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: SimDuration = SimDuration::from_secs(60);

    fn at(seconds: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_secs(seconds)
    }

    fn judge(value: f64, measured: u64) -> Result<f64, String> {
        let reading = Reading { value, at: at(measured), source: Source::Prometheus };
        let judged = reading.judge(at(1000), MINUTE, SimDuration::from_secs(5));
        judged.map(|reading| reading.value).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_fresh_amount_is_accepted() {
        assert_eq!(judge(0.25, 940), Ok(0.25));
        assert_eq!(judge(0.0, 1005), Ok(0.0));
    }

    #[test]
    fn a_stale_future_or_invalid_amount_is_refused() {
        assert_eq!(judge(1.0, 880), Err("120s old, at most 60s are allowed".to_owned()));
        let ahead = "120s ahead of the operator's clock: one of them is wrong";
        assert_eq!(judge(1.0, 1120), Err(ahead.to_owned()));
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(judge(value, 1000), Err(format!("{value} is not a valid amount")));
        }
    }
}
