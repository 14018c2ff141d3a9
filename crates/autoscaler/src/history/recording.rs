//! The recorded history of a workload.

use std::collections::BTreeMap;

use homeostat_core::{Bytes, Millicores, SimDuration, SimTime};

use crate::api::Plan;
use crate::measure::Reading;
use crate::recommend::{ContainerInputs, PodInputs};
use crate::workload::ContainerRecord;

/// The recorded history of a workload, with a sample at each step.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Time between two samples.
    pub step: SimDuration,
    /// The samples, in the order of time.
    pub samples: Vec<Sample>,
    /// Assumptions that were made.
    pub assumed: Vec<String>,
}

/// One sample of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// When.
    pub at: SimTime,
    /// The pods that ran, with their requests and usage.
    pub pods: Vec<PodInputs>,
    /// The latency or throughput of the SLO; none if it was not measured.
    pub objective: Option<f64>,
    /// Results of the plan's queries, in their order.
    pub queries: Vec<Option<f64>>,
    /// Results of the plan's queries of the load, in their order.
    pub load: Vec<Option<f64>>,
}

impl Sample {
    /// Cores and bytes that all pods requested.
    pub fn requested(&self) -> (f64, f64) {
        let containers = self.pods.iter().flat_map(|pod| &pod.containers);
        containers.fold((0.0, 0.0), |(cpu, memory), container| {
            let request = (container.cpu_request.cores(), container.memory_request.bytes());
            (cpu + request.0, memory + request.1 as f64)
        })
    }

    /// Cores that all pods used, as far as they were measured.
    pub fn cores_used(&self) -> f64 {
        let containers = self.pods.iter().flat_map(|pod| &pod.containers);
        containers.filter_map(|container| value(container.cpu)).sum()
    }
}

pub(super) fn value(reading: Option<Reading>) -> Option<f64> {
    reading.map(|reading| reading.value).filter(|value| value.is_finite() && *value >= 0.0)
}

/// Quantile and margin of the recorded usage that a missing request is assumed to cover, as in VPA.
const COVERED: f64 = 0.9;
const MARGIN: f64 = 1.15;

impl Recording {
    /// Time between the first and the last sample with pods.
    pub fn span(&self) -> SimDuration {
        let mut seen = self.samples.iter().filter(|sample| !sample.pods.is_empty());
        let first = seen.next().map_or(SimTime::ZERO, |sample| sample.at);
        let last = seen.next_back().map_or(first, |sample| sample.at);
        last.saturating_since(first)
    }

    /// Number of samples of the CPU usage of single pods.
    pub fn pod_samples(&self) -> usize {
        let pods = self.samples.iter().flat_map(|sample| &sample.pods);
        pods.filter(|pod| pod.containers.iter().any(|container| container.cpu.is_some())).count()
    }

    /// Records as an assumption that another recommender is replayed than the plan's.
    pub fn assume_recommender(&mut self, plan: &Plan) {
        let (named, played) = (plan.recommender.name(), super::player::played_recommender(plan));
        if named != played {
            self.assumed.push(format!(
                "the recommender {named} cannot be replayed; {played} is used instead"
            ));
        }
    }

    /// Records as an assumption what a policy sees of the load.
    pub fn assume_load(&mut self, plan: &Plan) {
        if plan.load.in_flight.is_some() {
            let assumed = "requests in flight are as recorded, with other pods as well";
            self.assumed.push(assumed.to_owned());
        }
    }

    /// Assumes requests for containers that have none, from their recorded usage: utilisation needs a
    /// request.
    pub fn assume_missing_requests(&mut self, containers: &[ContainerRecord]) {
        for container in containers {
            if container.cpu_request.is_none_or(|cpu| cpu == Millicores::ZERO) {
                let use_of_one = self.covered(&container.name, |container| value(container.cpu));
                let request = Millicores::from_cores(use_of_one).unwrap_or_default();
                let request = request.max(Millicores::new(10));
                self.each(&container.name, |container| {
                    if container.cpu_request == Millicores::ZERO {
                        container.cpu_request = request;
                    }
                });
                self.assumed.push(format!(
                    "{} requests no CPU: {request} is assumed from its usage",
                    container.name
                ));
            }
            if container.memory_request.is_none_or(|memory| memory == Bytes::ZERO) {
                let use_of_one = self.covered(&container.name, |container| value(container.memory));
                let mebibytes = (use_of_one / f64::from(1 << 20)).ceil() as u64;
                let request = Bytes::from_mib(mebibytes.max(16));
                self.each(&container.name, |container| {
                    if container.memory_request == Bytes::ZERO {
                        container.memory_request = request;
                    }
                });
                self.assumed.push(format!(
                    "{} requests no memory: {request} is assumed from its usage",
                    container.name
                ));
            }
        }
    }

    /// A high quantile of the recorded usage of a container, with a margin.
    fn covered(&self, name: &str, figure: fn(&ContainerInputs) -> Option<f64>) -> f64 {
        let pods = self.samples.iter().flat_map(|sample| &sample.pods);
        let containers = pods.flat_map(|pod| &pod.containers);
        let mut figures: Vec<f64> =
            containers.filter(|container| container.name == name).filter_map(figure).collect();
        figures.sort_by(f64::total_cmp);
        let place = (figures.len() as f64 * COVERED) as usize;
        figures
            .get(place.min(figures.len().saturating_sub(1)))
            .map_or(0.0, |quantile| quantile * MARGIN)
    }

    pub(super) fn each(&mut self, name: &str, change: impl Fn(&mut ContainerInputs)) {
        let pods = self.samples.iter_mut().flat_map(|sample| &mut sample.pods);
        let containers = pods.flat_map(|pod| &mut pod.containers);
        containers.filter(|container| container.name == name).for_each(change);
    }

    /// The sizes of the containers in the last sample with pods.
    pub fn last_sizes(&self) -> BTreeMap<String, (Millicores, Bytes)> {
        let last = self.samples.iter().rev().find_map(|sample| sample.pods.first());
        last.map(super::player::sizes_of).unwrap_or_default()
    }
}

/// A recording for tests: pods of 500m and 256Mi that use 100Mi, with the used cores by minute and pod,
/// and the latency by minute.
#[cfg(test)]
pub(crate) fn recording_of(
    minutes: u64,
    pods: usize,
    cores: impl Fn(u64, usize) -> f64,
    latency: impl Fn(u64) -> Option<f64>,
) -> Recording {
    use crate::measure::Source;
    let start = SimTime::ZERO + SimDuration::from_secs(1_000_000);
    let step = SimDuration::from_secs(60);
    let sample = |minute: u64| {
        let at = start + step * (minute + 60);
        let reading = |value| Some(Reading { value, at, source: Source::Prometheus });
        let pod = |place: usize| PodInputs {
            name: format!("a-{place}"),
            started: start,
            is_ready: true,
            served_throughout: None,
            containers: vec![ContainerInputs {
                name: "app".to_owned(),
                cpu_request: Millicores::new(500),
                memory_request: Bytes::from_mib(256),
                cpu: reading(cores(minute, place)),
                memory: reading(Bytes::from_mib(100).bytes() as f64),
            }],
        };
        let pods = (0..pods).map(pod).collect();
        Sample { at, pods, objective: latency(minute), queries: Vec::new(), load: Vec::new() }
    };
    Recording { step, samples: (0..minutes).map(sample).collect(), assumed: Vec::new() }
}
