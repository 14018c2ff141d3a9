//! What the infos of a scaled service add up to.

/// Requests and containers over steps, from the keys `settled`, `slo_violations` and `containers` of
/// [`crate::Info`]. Environments without requests have none of them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ServiceTotals {
    /// Steps whose info had requests, even if no request came.
    pub steps: f64,
    /// Requests that were answered, given up or lost.
    pub settled: f64,
    /// Requests that violated the SLO.
    pub slo_violations: f64,
    /// Sum of the containers of each step.
    pub containers: f64,
}

impl ServiceTotals {
    /// Of one step.
    pub fn of_info(info: &[(&'static str, f64)]) -> Self {
        let value = |key: &str| info.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        value("settled").map_or_else(Self::default, |settled| Self {
            steps: 1.0,
            settled,
            slo_violations: value("slo_violations").unwrap_or(0.0),
            containers: value("containers").unwrap_or(0.0),
        })
    }

    /// Adds other steps.
    pub fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.settled += other.settled;
        self.slo_violations += other.slo_violations;
        self.containers += other.containers;
    }

    /// Fraction of the requests that violated the SLO; none without requests.
    pub fn slo_violation_ratio(&self) -> Option<f64> {
        (self.settled > 0.0).then(|| self.slo_violations / self.settled)
    }

    /// Mean containers of a step; none without steps.
    pub fn mean_containers(&self) -> Option<f64> {
        (self.steps > 0.0).then(|| self.containers / self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_over_requests_and_containers_over_steps() {
        let mut totals = ServiceTotals::default();
        totals.add(ServiceTotals::of_info(&[]));
        assert_eq!((totals.slo_violation_ratio(), totals.mean_containers()), (None, None));
        for (settled, violations, containers) in [(10.0, 1.0, 2.0), (0.0, 0.0, 4.0)] {
            totals.add(ServiceTotals::of_info(&[
                ("settled", settled),
                ("slo_violations", violations),
                ("containers", containers),
            ]));
        }
        assert_eq!(totals.slo_violation_ratio(), Some(0.1));
        assert_eq!(totals.mean_containers(), Some(3.0));
    }
}
