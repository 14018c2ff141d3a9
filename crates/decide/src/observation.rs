//! Observations of pod scaling: one window of telemetry, never the inside of a simulator.

use std::fmt;

use homeostat_core::{Bytes, Millicores, SimDuration, SimTime, Slo};

use crate::{EndToEnd, MetricsStatus, ServiceTime, SloStatus, TeamState};

/// The setting of pod scaling: a number of replicas of equal size.
///
/// CPU is a weight, as `cpu.shares` and Kubernetes' requests are: 1024 shares correspond to one
/// core, so that a step of 128 shares is 125 millicores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// Number of replicas.
    pub replicas: u32,
    /// CPU of each.
    pub cpu: Millicores,
    /// Memory limit of each.
    pub memory: Bytes,
}

impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x ({}, {})", self.replicas, self.cpu, self.memory)
    }
}

/// One window of telemetry of one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Time of the decision.
    pub now: SimTime,
    /// Length of the window.
    pub window: SimDuration,
    /// The present allocation.
    pub allocation: Allocation,
    /// The SLO.
    pub slo: Slo,
    /// Latency at the SLO's percentile when the target runs alone, from profiling.
    pub isolated_latency: SimDuration,
    /// Latency at the SLO's percentile in the window, including the age of waiting requests; none
    /// without requests.
    pub latency: Option<SimDuration>,
    /// Arrival rate in requests per second; NaN where it is unknown.
    pub arrivals_per_s: f64,
    /// Mean number of requests in the system, waiting or in service; NaN where it is unknown.
    pub concurrency: f64,
    /// Requests waiting at the end of the window.
    pub waiting: u64,
    /// Out-of-memory kills of replicas in the window.
    pub oom_kills: u32,
    /// Measurements of each replica.
    pub replicas: Vec<ReplicaSample>,
    /// Results of the controller's own queries, in their order; none where a result is missing.
    pub queries: Vec<Option<f64>>,
    /// The mean size of the replicas while they are being resized one by one; none if it equals
    /// the allocation.
    pub measured: Option<Allocation>,
    /// Whether the SLO is met, where latency alone does not determine it.
    pub slo_status: Option<SloStatus>,
    /// Which metrics are available.
    pub metrics: MetricsStatus,
    /// Service time of a request when the target runs alone, from profiling; else it is estimated
    /// from usage and arrivals.
    pub service_time: Option<ServiceTime>,
    /// The other members of its team, for policies that read them; none outside of a team.
    pub team: Option<TeamState>,
    /// The chain of which it is a stage, from end to end; none outside of a chain.
    pub chain: Option<EndToEnd>,
}

impl Observation {
    /// An observation of an idle target.
    pub fn new(now: SimTime, allocation: Allocation, slo: Slo) -> Self {
        Self {
            now,
            window: SimDuration::from_secs(15),
            allocation,
            slo,
            isolated_latency: slo.threshold(),
            latency: None,
            arrivals_per_s: 0.0,
            concurrency: 0.0,
            waiting: 0,
            oom_kills: 0,
            replicas: Vec::new(),
            queries: Vec::new(),
            measured: None,
            slo_status: None,
            metrics: MetricsStatus::Complete,
            service_time: None,
            team: None,
            chain: None,
        }
    }

    /// Whether the load is known: arrivals and requests in the system.
    pub fn knows_load(&self) -> bool {
        let is_amount = |figure: f64| figure.is_finite() && figure >= 0.0;
        is_amount(self.arrivals_per_s) && is_amount(self.concurrency)
    }

    /// Replicas that serve requests.
    pub fn serving(&self) -> u32 {
        self.replicas.iter().filter(|replica| replica.is_ready).count() as u32
    }

    /// Mean CPU request of the replicas; none without replicas.
    pub fn mean_request(&self) -> Option<Millicores> {
        let replicas = u64::try_from(self.replicas.len()).ok().filter(|count| *count > 0)?;
        let requests = self.replicas.iter().map(|replica| self.request_of(replica).millicores());
        Some(Millicores::new(requests.sum::<u64>() / replicas))
    }

    /// CPU utilisation of the serving replicas, relative to their requests; none if it is unknown.
    pub fn mean_cpu_use(&self) -> Option<f64> {
        let sum = |(used, requested), (more, replica): (f64, &ReplicaSample)| {
            (used + more, requested + self.request_of(replica).cores())
        };
        let (used, requested) = self.serving_cpu().fold((0.0, 0.0), sum);
        (requested > 0.0).then(|| used / requested)
    }

    /// Mean CPU use of the serving replicas in cores; none if it is unknown.
    pub fn mean_cpu_cores(&self) -> Option<f64> {
        mean(self.serving_cpu().map(|(used, _)| used))
    }

    /// CPU time of a request: CPU use of the serving replicas over the arrival rate; none if either
    /// is unknown.
    pub(crate) fn cpu_of_a_request(&self) -> Option<SimDuration> {
        let cores: f64 = self.serving_cpu().map(|(used, _)| used).sum();
        let is_known = self.arrivals_per_s.is_finite() && self.arrivals_per_s > 0.0;
        let seconds = is_known.then(|| cores / self.arrivals_per_s)?;
        SimDuration::from_seconds(seconds).ok().filter(|cpu| *cpu > SimDuration::ZERO)
    }

    /// Whether every replica requests CPU.
    pub(crate) fn all_request_cpu(&self) -> bool {
        self.replicas.iter().all(|replica| self.request_of(replica) > Millicores::ZERO)
    }

    /// CPU request of a replica.
    pub(crate) fn request_of(&self, replica: &ReplicaSample) -> Millicores {
        replica.cpu_request.unwrap_or(self.allocation.cpu)
    }

    fn serving_cpu(&self) -> impl Iterator<Item = (f64, &ReplicaSample)> {
        let serving = self.replicas.iter().filter(|replica| replica.is_ready);
        serving.filter_map(|replica| Some((replica.cpu_cores?, replica)))
    }
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0u32), |(sum, count), next| (sum + next, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Measurements of one replica in a window.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaSample {
    /// When it was started.
    pub started: SimTime,
    /// Whether it serves requests.
    pub is_ready: bool,
    /// Whether it was ready in the whole window; none if that is unknown.
    pub served_throughout: Option<bool>,
    /// Its CPU request, if it differs from the allocation: while replicas are being resized one by
    /// one.
    pub cpu_request: Option<Millicores>,
    /// Mean CPU use in cores; none if it is unknown.
    pub cpu_cores: Option<f64>,
    /// Peak memory use; none if it is unknown.
    pub memory: Option<Bytes>,
}

impl ReplicaSample {
    /// A ready replica, without measurements.
    pub fn ready(started: SimTime) -> Self {
        Self {
            started,
            is_ready: true,
            served_throughout: None,
            cpu_request: None,
            cpu_cores: None,
            memory: None,
        }
    }
}
