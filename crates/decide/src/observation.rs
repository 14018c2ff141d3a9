//! What a controller may know of its target when it decides: figures of one window of
//! telemetry, never the inside of a simulator.

use std::fmt;

use homeostat_core::{Bytes, Millicores, SimDuration, SimTime, Slo};

use crate::{MetricsStatus, ServiceTime, SloStatus};

/// What a target is given: a number of replicas, each of the same size.
///
/// CPU is a weight, as `cpu.shares` and Kubernetes' requests are: 1024 shares are one core's
/// worth, so that a step of 128 shares is 125 millicores.
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
    /// When the decision is made.
    pub now: SimTime,
    /// Length of the window that the figures are of.
    pub window: SimDuration,
    /// What the target is given now.
    pub allocation: Allocation,
    /// Its objective.
    pub slo: Slo,
    /// Latency at the objective's percentile when the target runs alone, as it was profiled.
    pub isolated_latency: SimDuration,
    /// Latency at the objective's percentile in the window, the age of waiting requests
    /// included; none if there was no request.
    pub latency: Option<SimDuration>,
    /// Requests that arrived, per second.
    pub arrivals_per_s: f64,
    /// Mean number of requests in the system, waiting or in service.
    pub concurrency: f64,
    /// Requests that wait at the end of the window.
    pub waiting: u64,
    /// Replicas killed in the window because they exceeded their memory.
    pub oom_kills: u32,
    /// Each replica's own figures.
    pub replicas: Vec<ReplicaSample>,
    /// Answers to the controller's own queries, in the order in which it was given them; none
    /// where one is missing.
    pub queries: Vec<Option<f64>>,
    /// What replicas really have, mean over them, while they are being changed one by one; none if
    /// that is the allocation.
    pub measured: Option<Allocation>,
    /// Whether the SLO is met, where that takes more than the latency; none if it does not.
    pub slo_status: Option<SloStatus>,
    /// Which figures could be had.
    pub metrics: MetricsStatus,
    /// What a request takes when the target is alone, where it was profiled; else it is estimated
    /// from usage and arrivals.
    pub service_time: Option<ServiceTime>,
    /// The other members of its team as features, for policies that read them; else empty.
    pub team: Vec<f32>,
}

impl Observation {
    /// An observation of a target that had nothing to do.
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
            team: Vec::new(),
        }
    }

    /// Replicas that serve requests.
    pub fn serving(&self) -> u32 {
        self.replicas.iter().filter(|replica| replica.is_ready).count() as u32
    }

    /// CPU that a replica requests on average; none without replicas.
    pub fn mean_request(&self) -> Option<Millicores> {
        let replicas = u64::try_from(self.replicas.len()).ok().filter(|count| *count > 0)?;
        let requests = self.replicas.iter().map(|replica| self.request_of(replica).millicores());
        Some(Millicores::new(requests.sum::<u64>() / replicas))
    }

    /// CPU that serving replicas use, as a part of what they request; none if no figure is known.
    pub fn mean_cpu_use(&self) -> Option<f64> {
        let sum = |(used, requested), (more, replica): (f64, &ReplicaSample)| {
            (used + more, requested + self.request_of(replica).cores())
        };
        let (used, requested) = self.serving_cpu().fold((0.0, 0.0), sum);
        (requested > 0.0).then(|| used / requested)
    }

    /// Cores that a serving replica uses on average; none if no figure is known.
    pub fn mean_cpu_cores(&self) -> Option<f64> {
        mean(self.serving_cpu().map(|(used, _)| used))
    }

    /// CPU time of a request: cores that serving replicas use over requests that arrive; none if
    /// either is not known.
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

    /// CPU that a replica requests.
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

/// One replica's figures in a window.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaSample {
    /// When it was started.
    pub started: SimTime,
    /// Whether it serves requests.
    pub is_ready: bool,
    /// Whether it served in all of the time that its figures are of; none where nobody knows.
    pub served_throughout: Option<bool>,
    /// CPU that it requests, where replicas may differ from the allocation: while they are being
    /// changed one by one.
    pub cpu_request: Option<Millicores>,
    /// Cores it used, mean over the window; none if the figure is missing.
    pub cpu_cores: Option<f64>,
    /// Memory it used at most in the window; none if the figure is missing.
    pub memory: Option<Bytes>,
}

impl ReplicaSample {
    /// A replica that serves, without figures.
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
