//! What a way to run a workload costs, and what it risks.

use serde::Serialize;

use super::player::Stage;
use super::recording::{Moment, value};
use crate::api::{Goal, Plan};

/// Whether an objective is kept, as far as a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objective {
    /// It is.
    Kept,
    /// It is not.
    Broken,
    /// It was not measured, or not under such sizes.
    Unknown,
}

/// Sums over the moments of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Tally {
    /// Hours.
    pub hours: f64,
    /// Requested cores times hours.
    pub core_hours: f64,
    /// Requested gibibytes times hours.
    pub gib_hours: f64,
    /// Pods times hours.
    pub pod_hours: f64,
    /// Moments.
    pub moments: u32,
    /// Moments at which all pods together used more CPU than they requested.
    pub short_of_cpu: u32,
    /// The most that CPU use was above the requests, as a part of them.
    pub worst_cpu_excess: f64,
    /// Moments at which a pod used more memory than it requested.
    pub short_of_memory: u32,
    /// The most that memory use was above the request, as a part of it.
    pub worst_memory_excess: f64,
    /// Moments at which the objective was kept.
    pub kept: u32,
    /// Moments at which it was broken.
    pub broken: u32,
    /// Moments at which nobody knows.
    pub unknown: u32,
    /// Times that the number of pods changed.
    pub scalings: u32,
    /// Times that their size changed.
    pub resizes: u32,
}

impl Tally {
    /// Counts a moment as it would have been with the pods and sizes of a stage.
    pub fn add(&mut self, hours: f64, moment: &Moment, stage: &Stage, objective: Objective) {
        let (cores, bytes) = stage.requested();
        self.count(hours, (cores, bytes), f64::from(stage.replicas()), objective);
        let size = stage.pod().1.bytes() as f64;
        let memory = most_memory(moment).map(|used| excess(used, size));
        self.short(excess(moment.cores_used(), cores), memory);
    }

    /// Counts a moment as it was.
    pub fn add_recorded(&mut self, hours: f64, moment: &Moment, objective: Objective) {
        let (cores, bytes) = moment.requested();
        self.count(hours, (cores, bytes), moment.pods.len() as f64, objective);
        let of_pod = |pod: &crate::recommend::PodInputs| {
            let requested: u64 =
                pod.containers.iter().map(|container| container.memory_request.bytes()).sum();
            Some(excess(memory_of(pod)?, requested as f64))
        };
        let memory = moment.pods.iter().filter_map(of_pod).max_by(f64::total_cmp);
        self.short(excess(moment.cores_used(), cores), memory);
    }

    /// Mean number of pods.
    pub fn mean_pods(&self) -> f64 {
        if self.hours > 0.0 { self.pod_hours / self.hours } else { 0.0 }
    }

    fn count(&mut self, hours: f64, (cores, bytes): (f64, f64), pods: f64, objective: Objective) {
        const GIB: f64 = (1_u64 << 30) as f64;
        self.hours += hours;
        self.core_hours += cores * hours;
        self.gib_hours += bytes / GIB * hours;
        self.pod_hours += pods * hours;
        self.moments += 1;
        match objective {
            Objective::Kept => self.kept += 1,
            Objective::Broken => self.broken += 1,
            Objective::Unknown => self.unknown += 1,
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

/// Whether a figure keeps the objective of a plan; none without figure or objective.
pub(super) fn is_kept(plan: &Plan, figure: Option<f64>) -> Option<bool> {
    let figure = figure.filter(|figure| figure.is_finite())?;
    match plan.goal.as_ref()? {
        Goal::Latency { slo, .. } => Some(figure <= slo.threshold().seconds()),
        Goal::Throughput { threshold, .. } => Some(figure >= *threshold),
    }
}

/// How far use is above a request, as a part of the request; zero if it is not.
fn excess(used: f64, requested: f64) -> f64 {
    if requested > 0.0 { (used / requested - 1.0).max(0.0) } else { 0.0 }
}

fn memory_of(pod: &crate::recommend::PodInputs) -> Option<f64> {
    pod.containers.iter().map(|container| value(container.memory)).sum()
}

fn most_memory(moment: &Moment) -> Option<f64> {
    moment.pods.iter().filter_map(memory_of).max_by(f64::total_cmp)
}
