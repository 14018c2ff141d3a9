//! From a history to a recommended range.

use super::decaying_histogram::DecayingHistogram;
use super::policy::VpaConfig;
use super::usage_history::UsageHistory;

/// What one resource should be, in cores or bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::policies) struct Range {
    /// Requests below are changed.
    pub(in crate::policies) lower: f64,
    /// What a changed request becomes.
    pub(in crate::policies) target: f64,
    /// Requests above are changed. Infinite while nothing is known.
    pub(in crate::policies) upper: f64,
}

impl Range {
    /// Whether a request may stay.
    pub(super) fn contains(&self, request: f64) -> bool {
        self.lower <= request && request <= self.upper
    }
}

/// The range of CPU; none without samples.
pub(super) fn cpu_range(config: &VpaConfig, history: &UsageHistory) -> Option<Range> {
    let minimum = config.pod_minimum_cpu.cores() / f64::from(config.containers);
    range(config, &history.cpu, history.confidence(config), minimum)
}

/// The range of memory; none without samples.
pub(super) fn memory_range(config: &VpaConfig, history: &UsageHistory) -> Option<Range> {
    let minimum = config.pod_minimum_memory.bytes() as f64 / f64::from(config.containers);
    range(config, &history.memory, history.confidence(config), minimum)
}

// Deviation: Kubernetes recommends the minimum for a resource it has never seen; here the
// resource is left alone, since a missing figure is no sign of a small need.
fn range(
    config: &VpaConfig,
    usage: &DecayingHistogram,
    confidence: f64,
    minimum: f64,
) -> Option<Range> {
    if usage.is_empty() {
        return None;
    }
    let margin = 1.0 + config.safety_margin.ratio();
    let percentile = |part: homeostat_core::Fraction| usage.percentile(part.ratio()) * margin;
    // The range is wide while there is little history. After twelve hours the upper bound is
    // three times its percentile, after a week 1.14 times; the lower bound is at half of its
    // own after three or four minutes already, so that starved replicas are helped early.
    let upper = percentile(config.upper_percentile) * confidence_factor(confidence, 1.0, 1.0);
    let lower = percentile(config.lower_percentile) * confidence_factor(confidence, 0.001, -2.0);
    Some(Range {
        lower: lower.max(minimum),
        target: percentile(config.target_percentile).max(minimum),
        upper: upper.max(minimum),
    })
}

/// `(1 + multiplier / confidence) ^ exponent`.
fn confidence_factor(confidence: f64, multiplier: f64, exponent: f64) -> f64 {
    (1.0 + multiplier / confidence).powf(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_history_widens_the_range() {
        let check = |got: f64, expect: f64| assert!((got - expect).abs() < 1e-2, "{got}");
        check(314.0 * confidence_factor(0.00625, 0.1, 2.0), 90_746.0);
        check(confidence_factor(0.5, 1.0, 1.0), 3.0);
        check(confidence_factor(7.0, 1.0, 1.0), 1.14);
        check(confidence_factor(3.5 / 1440.0, 0.001, -2.0), 0.5);
    }

    #[test]
    fn no_history_has_no_upper_and_no_lower_end() {
        assert_eq!(confidence_factor(0.0, 1.0, 1.0), f64::INFINITY);
        assert_eq!(confidence_factor(0.0, 0.001, -2.0), 0.0);
    }
}
