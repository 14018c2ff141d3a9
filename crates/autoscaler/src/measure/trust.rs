//! How recent metrics have to be, and the problems with those of one reconcile.

use homeostat_core::SimDuration;
use homeostat_decide::{MetricsStatus, MetricsTrust};

use super::reading::Problem;

/// Limits of the age of metrics and of the time without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustConfig {
    /// An older metric is stale.
    pub max_age: SimDuration,
    /// A metric may be this far ahead of this clock.
    pub clock_skew: SimDuration,
    /// After this time without metrics the fallback starts.
    pub hold: SimDuration,
}

impl Default for TrustConfig {
    fn default() -> Self {
        Self {
            max_age: SimDuration::from_secs(90),
            clock_skew: SimDuration::from_secs(30),
            hold: SimDuration::from_secs(300),
        }
    }
}

/// The problems with the metrics of one reconcile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Problems {
    /// Problems with CPU and memory usage.
    pub usage: Vec<(String, Problem)>,
    /// Problems with the metric of the SLO and with queries.
    pub other: Vec<(String, Problem)>,
}

impl Problems {
    /// Which metrics can be used.
    pub fn status(&self) -> MetricsStatus {
        match (self.usage.is_empty(), self.other.is_empty()) {
            (false, _) => MetricsStatus::Missing,
            (true, false) => MetricsStatus::UtilizationOnly,
            (true, true) => MetricsStatus::Complete,
        }
    }
}

/// How far the metrics of one reconcile are trusted, and why not further.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// How far they are trusted.
    pub trust: MetricsTrust,
    /// The problems, worst first.
    pub problems: Vec<(String, Problem)>,
}
