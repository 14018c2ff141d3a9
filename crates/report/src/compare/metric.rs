//! The figures that runs are compared by.

use homeostat_lab::Summary;
use homeostat_simulate::Figures;

use super::format::with_interval;

/// One figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name for programs.
    pub key: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// The unit in which people read it, where `%` is for ratios; nothing for plain numbers.
    pub unit: &'static str,
    /// Which way is better, if either is.
    pub direction: Direction,
    /// Whether differences in it are shown.
    pub is_compared: bool,
}

/// Where a figure is found.
pub type OfFigures = fn(&Figures) -> f64;

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// Neither.
    Neither,
}

impl Metric {
    /// The last return of an agent in training.
    pub const RETURN: Self = Self::compared("return_mean", "return", "", Direction::Higher);

    /// The figures of simulations, and where each is found.
    pub const SIMULATION: [(Self, OfFigures); 12] = [
        (Self::shown("requests", "requests", ""), |figures| figures.requests as f64),
        (
            Self::compared("slo_violation_ratio", "SLO violations", "%", Direction::Lower),
            |figures| figures.slo_violation_ratio,
        ),
        (Self::compared("p99_over_slo", "p99 / SLO threshold", "", Direction::Lower), |figures| {
            figures.p99_over_slo
        }),
        (Self::shown("preservation", "SLO preservation", ""), |figures| figures.preservation),
        (Self::shown("cpu_utilisation", "CPU utilisation", ""), |figures| figures.cpu_utilisation),
        (Self::shown("memory_utilisation", "memory utilisation", ""), |figures| {
            figures.memory_utilisation
        }),
        (Self::shown("cpu_s", "CPU-seconds used", ""), |figures| figures.cpu_s),
        (Self::compared("container_s", "container-seconds", "", Direction::Lower), |figures| {
            figures.container_s
        }),
        (Self::compared("memory_gib_s", "memory GiB-seconds", "", Direction::Lower), |figures| {
            figures.memory_gib_s
        }),
        (Self::shown("cold_starts", "cold starts", ""), |figures| figures.cold_starts as f64),
        (Self::shown("oom_kills", "out-of-memory kills", ""), |figures| figures.oom_kills as f64),
        (Self::shown("reward", "reward", ""), |figures| figures.reward),
    ];

    /// A value in the unit in which people read it.
    pub(super) fn in_unit(&self, value: f64) -> f64 {
        if self.unit == "%" { 100.0 * value } else { value }
    }

    /// The mean with its interval, in the unit in which people read it.
    pub fn text(&self, summary: &Summary) -> String {
        let interval = summary.interval().map(|half| self.in_unit(half));
        with_interval(self.in_unit(summary.mean), interval)
    }

    const fn compared(
        key: &'static str,
        label: &'static str,
        unit: &'static str,
        direction: Direction,
    ) -> Self {
        Self { key, label, unit, direction, is_compared: true }
    }

    const fn shown(key: &'static str, label: &'static str, unit: &'static str) -> Self {
        Self { key, label, unit, direction: Direction::Neither, is_compared: false }
    }
}
