//! The exact figures of a cluster: sums over windows, and what they mean.

use homeostat_anomalies::{AnomalyKind, Injection};
use homeostat_core::{SimDuration, SimTime};
use homeostat_decide::Figure;

/// One service since the start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServiceTotals {
    /// Of the last window.
    pub(crate) window: ServiceFigures,
    /// Of all windows.
    sum: ServiceFigures,
}

/// One service in a number of windows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServiceFigures {
    pub(crate) windows: f64,
    pub(crate) calls: f64,
    pub(crate) refused: f64,
    /// Windows in which a type of requests that needs the service violated its SLO.
    pub(crate) violated: f64,
    /// Sums over windows: cores used and limits in cores of all replicas, and replicas.
    pub(crate) cpu_used: f64,
    pub(crate) cpu_limit: f64,
    pub(crate) replicas: f64,
}

impl ServiceTotals {
    pub(crate) fn add(&mut self, window: ServiceFigures) {
        self.window = window;
        let sum = &mut self.sum;
        sum.windows += window.windows;
        sum.calls += window.calls;
        sum.refused += window.refused;
        sum.violated += window.violated;
        sum.cpu_used += window.cpu_used;
        sum.cpu_limit += window.cpu_limit;
        sum.replicas += window.replicas;
    }

    pub(crate) fn sum(&self) -> &ServiceFigures {
        &self.sum
    }
}

impl ServiceFigures {
    /// Means over its windows.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let windows = self.windows.max(1.0);
        vec![
            ("calls", self.calls),
            ("refused_ratio", self.refused / self.calls.max(1.0)),
            ("slo_violated_window_ratio", self.violated / windows),
            ("cpu_limit_cores", self.cpu_limit / windows),
            ("cpu_utilization_ratio", self.cpu_used / self.cpu_limit.max(1e-9)),
            ("replicas", self.replicas / windows),
        ]
    }
}

/// All requests since the start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemTotals {
    /// Answered, failed or answered after the client gave up.
    pub(crate) requests: f64,
    /// Failed or answered after the client gave up.
    pub(crate) dropped: f64,
    /// Dropped, or answered later than the SLO.
    pub(crate) violations: f64,
    pub(crate) windows: f64,
    /// Windows in which some type of requests violated its SLO.
    pub(crate) violated: f64,
}

impl SystemTotals {
    pub(crate) fn figures(&self, services: &[ServiceTotals], p99_over_slo: f64) -> Vec<Figure> {
        let windows = self.windows.max(1.0);
        let sum = |of: fn(&ServiceFigures) -> f64| -> f64 {
            services.iter().map(|service| of(service.sum())).sum()
        };
        let (used, limit) = (sum(|service| service.cpu_used), sum(|service| service.cpu_limit));
        vec![
            ("requests", self.requests),
            ("slo_violation_ratio", self.violations / self.requests.max(1.0)),
            ("dropped_ratio", self.dropped / self.requests.max(1.0)),
            ("slo_violated_window_ratio", self.violated / windows),
            ("p99_over_slo", p99_over_slo),
            ("cpu_limit_cores", limit / windows),
            ("cpu_utilization_ratio", used / limit.max(1e-9)),
            ("replicas", sum(|service| service.replicas) / windows),
        ]
    }
}

/// What is injected at present, by service: the ground truth of a window.
#[derive(Debug, Clone, Default)]
pub(crate) struct InjectedNow {
    running: Vec<(Injection, SimTime)>,
}

/// The names of figures of injected anomalies, in the order of [`AnomalyKind::ALL`].
const INJECTED: [&str; 7] = [
    "injected_workload",
    "injected_network_delay",
    "injected_cpu",
    "injected_cache",
    "injected_memory_bandwidth",
    "injected_disk",
    "injected_network_bandwidth",
];

impl InjectedNow {
    pub(crate) fn add(&mut self, injection: Injection, now: SimTime) {
        self.running.push((injection, now + injection.duration));
    }

    /// Forgets what ended before a window.
    pub(crate) fn begin_window(&mut self, start: SimTime) {
        self.running.retain(|(_, end)| *end > start);
    }

    /// Intensity of each type in the last window, summed over the anomalies of a service, each weighted
    /// by the part of the window in which it ran.
    pub(crate) fn figures(&self, service: usize, now: SimTime, window: SimDuration) -> Vec<Figure> {
        let mut intensities = [0.0; 7];
        let start_s = now.seconds() - window.seconds();
        for (injection, end) in &self.running {
            if injection.service == service {
                let from_s = (end.seconds() - injection.duration.seconds()).max(start_s);
                let part = (end.seconds().min(now.seconds()) - from_s) / window.seconds();
                intensities[injection.kind.index()] += injection.intensity * part.max(0.0);
            }
        }
        AnomalyKind::ALL
            .iter()
            .map(|kind| (INJECTED[kind.index()], intensities[kind.index()]))
            .collect()
    }
}
