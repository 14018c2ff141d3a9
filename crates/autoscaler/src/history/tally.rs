//! Cost and risk of a way to run a workload.

use serde::Serialize;

use super::player::Stage;
use super::recording::{Sample, value};
use crate::api::{Goal, Plan};

/// Whether the SLO is met, as far as a recording tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SloState {
    /// It is met.
    Met,
    /// It is violated.
    Violated,
    /// It was not measured, or not with such sizes.
    Unknown,
}

/// Sums over the samples of a recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Duration in hours.
    pub hours: f64,
    /// Requested cores times hours.
    pub core_hours: f64,
    /// Requested gibibytes times hours.
    pub gib_hours: f64,
    /// Pods times hours.
    pub pod_hours: f64,
    /// Number of samples.
    pub samples: u32,
    /// Samples in which all pods together used more CPU than they requested.
    pub short_of_cpu: u32,
    /// The largest CPU usage above the requests, as a fraction of them.
    pub worst_cpu_excess: f64,
    /// Samples in which a pod used more memory than it requested.
    pub short_of_memory: u32,
    /// The largest memory usage above the request, as a fraction of it.
    pub worst_memory_excess: f64,
    /// Samples in which the SLO was met.
    pub slo_met: u32,
    /// Samples in which it was violated.
    pub slo_violated: u32,
    /// Samples in which neither is known.
    pub slo_unknown: u32,
    /// Number of changes of the number of pods.
    pub scalings: u32,
    /// Number of changes of their size.
    pub resizes: u32,
}

impl Tally {
    /// Adds a sample with the pods and sizes of a stage.
    pub fn add(&mut self, hours: f64, sample: &Sample, stage: &Stage, slo: SloState) {
        let (cores, bytes) = stage.requested();
        self.count(hours, cores, bytes, f64::from(stage.replicas()), slo);
        let size = stage.pod().1.bytes() as f64;
        let memory = most_memory(sample).map(|used| excess(used, size));
        self.short(excess(sample.cores_used(), cores), memory);
    }

    /// Adds a sample as it was recorded.
    pub fn add_recorded(&mut self, hours: f64, sample: &Sample, slo: SloState) {
        let (cores, bytes) = sample.requested();
        self.count(hours, cores, bytes, sample.pods.len() as f64, slo);
        let of_pod = |pod: &crate::recommend::PodInputs| {
            let requested: u64 =
                pod.containers.iter().map(|container| container.memory_request.bytes()).sum();
            Some(excess(memory_of(pod)?, requested as f64))
        };
        let memory = sample.pods.iter().filter_map(of_pod).max_by(f64::total_cmp);
        self.short(excess(sample.cores_used(), cores), memory);
    }

    /// Mean number of pods.
    pub fn mean_pods(&self) -> f64 {
        if self.hours > 0.0 { self.pod_hours / self.hours } else { 0.0 }
    }

    fn count(&mut self, hours: f64, cores: f64, bytes: f64, pods: f64, slo: SloState) {
        const GIB: f64 = (1_u64 << 30) as f64;
        self.hours += hours;
        self.core_hours += cores * hours;
        self.gib_hours += bytes / GIB * hours;
        self.pod_hours += pods * hours;
        self.samples += 1;
        match slo {
            SloState::Met => self.slo_met += 1,
            SloState::Violated => self.slo_violated += 1,
            SloState::Unknown => self.slo_unknown += 1,
        }
    }

    fn short(&mut self, cpu_excess: f64, memory_excess: Option<f64>) {
        self.short_of_cpu += u32::from(cpu_excess > 0.0);
        self.worst_cpu_excess = self.worst_cpu_excess.max(cpu_excess);
        let memory_excess = memory_excess.unwrap_or(0.0);
        self.short_of_memory += u32::from(memory_excess > 0.0);
        self.worst_memory_excess = self.worst_memory_excess.max(memory_excess);
    }
}

/// Whether a measured value meets the SLO of a plan; none without a value or an SLO.
pub(super) fn is_met(plan: &Plan, figure: Option<f64>) -> Option<bool> {
    let figure = figure.filter(|figure| figure.is_finite())?;
    match plan.goal.as_ref()? {
        Goal::Latency { slo, .. } => Some(figure <= slo.threshold().seconds()),
        Goal::Throughput { threshold, .. } => Some(figure >= *threshold),
    }
}

/// Usage above a request as a fraction of the request; zero if it is below.
fn excess(used: f64, requested: f64) -> f64 {
    if requested > 0.0 { (used / requested - 1.0).max(0.0) } else { 0.0 }
}

fn memory_of(pod: &crate::recommend::PodInputs) -> Option<f64> {
    pod.containers.iter().map(|container| value(container.memory)).sum()
}

fn most_memory(sample: &Sample) -> Option<f64> {
    sample.pods.iter().filter_map(memory_of).max_by(f64::total_cmp)
}
