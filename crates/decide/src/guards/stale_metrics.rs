//! Handles metrics that are missing, stale or contradictory. The target is held for a while; then
//! the fallback uses the remaining metrics and never scales down.

use homeostat_core::{Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use super::{Admission, Guard, GuardContext};
use crate::{Domain, GuardReason, MetricsStatus, Observe, Setting};

/// How far the metrics of one observation are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsTrust {
    /// In full.
    Full,
    /// Nothing changes for now.
    Hold {
        /// For how long still.
        remaining: SimDuration,
    },
    /// Utilisation alone decides, and nothing is made smaller.
    UtilizationOnly,
    /// Only bounds may change the setting.
    None,
}

/// Holds a target while its metrics are incomplete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StaleMetrics {
    hold: SimDuration,
    incomplete_since: Option<SimTime>,
    trust: MetricsTrust,
}

impl StaleMetrics {
    /// Holds for this long before it falls back.
    pub(crate) fn new(hold: SimDuration) -> Self {
        Self { hold, incomplete_since: None, trust: MetricsTrust::Full }
    }

    pub(crate) fn set_hold(&mut self, hold: SimDuration) {
        self.hold = hold;
    }

    pub(crate) fn trust(&self) -> MetricsTrust {
        self.trust
    }

    fn judge(&mut self, now: SimTime, status: MetricsStatus) -> MetricsTrust {
        if status == MetricsStatus::Complete {
            self.incomplete_since = None;
            return MetricsTrust::Full;
        }
        let since = *self.incomplete_since.get_or_insert(now);
        if now.saturating_since(since) < self.hold {
            let remaining = (since + self.hold).saturating_since(now);
            return MetricsTrust::Hold { remaining };
        }
        match status {
            MetricsStatus::Missing => MetricsTrust::None,
            _ => MetricsTrust::UtilizationOnly,
        }
    }
}

impl<D: Domain> Guard<D> for StaleMetrics {
    fn name(&self) -> &'static str {
        "stale_metrics"
    }

    fn admit(&mut self, obs: &D::Observation) -> Admission {
        self.trust = self.judge(obs.now(), obs.metrics_status());
        match self.trust {
            MetricsTrust::Full | MetricsTrust::UtilizationOnly => Admission::Ask,
            MetricsTrust::Hold { remaining } => {
                Admission::Hold(GuardReason::MetricsStale { remaining })
            }
            MetricsTrust::None => Admission::Hold(GuardReason::MetricsMissing),
        }
    }

    fn limit(
        &mut self,
        context: &GuardContext<'_, D>,
        wanted: D::Setting,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting {
        if self.trust != MetricsTrust::UtilizationOnly {
            return wanted;
        }
        reasons.push(GuardReason::ScaleDownUncertain.into());
        wanted.at_least(context.from())
    }
}

impl Persist for StaleMetrics {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let since = self.incomplete_since.map(SimTime::nanos);
        out.put_u64(name, since.into_iter().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.incomplete_since = from.any_u64s(name)?.first().copied().map(SimTime::from_nanos);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_metrics_hold_the_target_and_then_what_is_left_of_them_counts() {
        let mut guard = StaleMetrics::new(SimDuration::from_secs(300));
        let mut at = |seconds: u64, status| {
            guard.judge(SimTime::ZERO + SimDuration::from_secs(10_000 + seconds), status)
        };
        let held = |seconds| MetricsTrust::Hold { remaining: SimDuration::from_secs(seconds) };
        assert_eq!(at(0, MetricsStatus::Complete), MetricsTrust::Full);
        assert_eq!(at(15, MetricsStatus::UtilizationOnly), held(300));
        assert_eq!(at(115, MetricsStatus::Missing), held(200));
        assert_eq!(at(315, MetricsStatus::UtilizationOnly), MetricsTrust::UtilizationOnly);
        assert_eq!(at(330, MetricsStatus::Missing), MetricsTrust::None);
        // One complete window ends the hold; the next one lasts for the full time again.
        assert_eq!(at(345, MetricsStatus::Complete), MetricsTrust::Full);
        assert_eq!(at(360, MetricsStatus::Missing), held(300));
    }
}
