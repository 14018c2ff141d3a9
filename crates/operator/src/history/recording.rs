//! What was recorded of a workload.

use std::collections::BTreeMap;

use homeostat_core::{Bytes, Millicores, SimDuration, SimTime};

use crate::api::Plan;
use crate::cluster::ContainerRecord;
use crate::measure::Reading;
use crate::recommend::{ContainerInputs, PodInputs};

/// What was recorded of a workload, a moment at each step.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Time between two moments.
    pub step: SimDuration,
    /// The moments, in the order of time.
    pub moments: Vec<Moment>,
    /// What had to be assumed, in words.
    pub assumed: Vec<String>,
}

/// One moment of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// When.
    pub at: SimTime,
    /// Pods that ran, with what they requested and used.
    pub pods: Vec<PodInputs>,
    /// The objective's figure; none if nobody measured it.
    pub objective: Option<f64>,
    /// Answers of the plan's queries, in their order.
    pub queries: Vec<Option<f64>>,
}

impl Moment {
    /// Cores and bytes that all pods requested.
    pub fn requested(&self) -> (f64, f64) {
        let containers = self.pods.iter().flat_map(|pod| &pod.containers);
        containers.fold((0.0, 0.0), |(cpu, memory), container| {
            let request = (container.cpu_request.cores(), container.memory_request.bytes());
            (cpu + request.0, memory + request.1 as f64)
        })
    }

    /// Cores that all pods used, as far as it was measured.
    pub fn cores_used(&self) -> f64 {
        let containers = self.pods.iter().flat_map(|pod| &pod.containers);
        containers.filter_map(|container| value(container.cpu)).sum()
    }
}

pub(super) fn value(reading: Option<Reading>) -> Option<f64> {
    reading.map(|reading| reading.value).filter(|value| value.is_finite() && *value >= 0.0)
}

/// Part of the recorded use that a request which was never made is taken to cover, and what is
/// added to it: the rule of the vertical autoscaler.
const COVERED: f64 = 0.9;
const MARGIN: f64 = 1.15;

impl Recording {
    /// Time between the first and the last moment at which there were pods.
    pub fn span(&self) -> SimDuration {
        let mut seen = self.moments.iter().filter(|moment| !moment.pods.is_empty());
        let first = seen.next().map_or(SimTime::ZERO, |moment| moment.at);
        let last = seen.next_back().map_or(first, |moment| moment.at);
        last.saturating_since(first)
    }

    /// Samples of CPU use of a pod.
    pub fn samples(&self) -> usize {
        let pods = self.moments.iter().flat_map(|moment| &moment.pods);
        pods.filter(|pod| pod.containers.iter().any(|container| container.cpu.is_some())).count()
    }

    /// Notes down that somebody else recommends than the plan says.
    pub fn assume_recommender(&mut self, plan: &Plan) {
        let (named, played) = (plan.recommender.name(), super::player::played_recommender(plan));
        if named != played {
            self.assumed.push(format!("the recommender {named} is not played, but {played}"));
        }
    }

    /// Gives containers that request nothing what their recorded use asks for: a part of nothing
    /// is no target. What was given is noted down.
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
                    "{} requests no CPU: taken for {request}, as its use asks",
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
                    "{} requests no memory: taken for {request}, as its use asks",
                    container.name
                ));
            }
        }
    }

    /// What covers most of the recorded use of a container, with a margin.
    fn covered(&self, name: &str, figure: fn(&ContainerInputs) -> Option<f64>) -> f64 {
        let pods = self.moments.iter().flat_map(|moment| &moment.pods);
        let containers = pods.flat_map(|pod| &pod.containers);
        let mut figures: Vec<f64> =
            containers.filter(|container| container.name == name).filter_map(figure).collect();
        figures.sort_by(f64::total_cmp);
        let place = (figures.len() as f64 * COVERED) as usize;
        figures.get(place.min(figures.len().saturating_sub(1))).map_or(0.0, |most| most * MARGIN)
    }

    pub(super) fn each(&mut self, name: &str, change: impl Fn(&mut ContainerInputs)) {
        let pods = self.moments.iter_mut().flat_map(|moment| &mut moment.pods);
        let containers = pods.flat_map(|pod| &mut pod.containers);
        containers.filter(|container| container.name == name).for_each(change);
    }

    /// The sizes of the containers at the last moment with pods.
    pub fn last_sizes(&self) -> BTreeMap<String, (Millicores, Bytes)> {
        let last = self.moments.iter().rev().find_map(|moment| moment.pods.first());
        last.map(super::player::sizes_of).unwrap_or_default()
    }
}

/// A recording for tests: minutes of pods of 500m and 256Mi that use 100Mi, with cores by minute
/// and pod, and latency by minute.
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
    let moment = |minute: u64| {
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
        Moment { at, pods, objective: latency(minute), queries: Vec::new() }
    };
    Recording { step, moments: (0..minutes).map(moment).collect(), assumed: Vec::new() }
}
