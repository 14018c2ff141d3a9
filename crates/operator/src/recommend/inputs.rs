//! What a controller knows of a workload at one moment.

use std::collections::BTreeMap;

use homeostat_core::{Bytes, Fraction, Millicores, SimDuration, SimTime, Slo};
use homeostat_decide::{Allocation, Observation, ReplicaSample};

use crate::api::{Goal, Plan};
use crate::cluster::{ContainerRecord, PodRecord};
use crate::measure::{PodUse, Problem, Problems, Reading, Source, TrustConfig};
use crate::update::Sizes;

/// What is known of a workload at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// Now.
    pub now: SimTime,
    /// Time that the numbers are means of.
    pub window: SimDuration,
    /// Pods that the workload asks for.
    pub replicas: u32,
    /// Its pods.
    pub pods: Vec<PodInputs>,
    /// Kills for want of memory since the last moment, of containers by their name.
    pub oom_kills: BTreeMap<String, u32>,
    /// Why no use is known at all, if so.
    pub use_problem: Option<Problem>,
    /// The objective's figure; none if the object has no objective.
    pub objective: Option<Result<Reading, Problem>>,
    /// Answers of the plan's queries, in their order.
    pub queries: Vec<Result<Reading, Problem>>,
}

/// One pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodInputs {
    /// Its name.
    pub name: String,
    /// When it started.
    pub started: SimTime,
    /// Whether it serves.
    pub is_ready: bool,
    /// Whether it served in all of the time that its figures are of; none where nobody knows.
    pub served_throughout: Option<bool>,
    /// Its containers.
    pub containers: Vec<ContainerInputs>,
}

/// One container of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerInputs {
    /// Its name.
    pub name: String,
    /// CPU that it requests.
    pub cpu_request: Millicores,
    /// Memory that it requests.
    pub memory_request: Bytes,
    /// Cores that it uses.
    pub cpu: Option<Reading>,
    /// Bytes that it uses.
    pub memory: Option<Reading>,
}

/// Inputs of which every number was judged.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    /// What is wrong with them.
    pub(super) problems: Problems,
    /// Pods whose numbers are believed, with what is left of them.
    pub(super) pods: Vec<PodInputs>,
    /// The objective's figure.
    pub(super) objective: Option<f64>,
    /// Answers of the queries.
    pub(super) queries: Vec<Option<f64>>,
}

impl PodInputs {
    /// A pod with what the metrics API says of its use.
    pub fn measured(pod: &PodRecord, used: Option<&PodUse>) -> Self {
        let container = |container: &ContainerRecord| {
            let used = used.and_then(|used| {
                used.containers.iter().find(|(name, _, _)| *name == container.name)
            });
            ContainerInputs {
                name: container.name.clone(),
                cpu_request: container.cpu_request.unwrap_or_default(),
                memory_request: container.memory_request.unwrap_or_default(),
                cpu: used.and_then(|(_, cpu, _)| *cpu),
                memory: used.and_then(|(_, _, memory)| *memory),
            }
        };
        let measured_from = used.and_then(|used| used.measured_from);
        let served_throughout = |(since, from)| since <= from;
        Self {
            name: pod.name.clone(),
            started: pod.started,
            is_ready: pod.ready_since.is_some(),
            served_throughout: pod.ready_since.zip(measured_from).map(served_throughout),
            containers: pod.containers.iter().map(container).collect(),
        }
    }

    /// CPU that its containers request together.
    fn cpu_request(&self) -> Millicores {
        let requests = self.containers.iter().map(|container| container.cpu_request.millicores());
        Millicores::new(requests.sum())
    }
}

impl Inputs {
    /// Judges every number.
    pub(super) fn judge(&self, plan: &Plan, config: &TrustConfig) -> Judged {
        let believe =
            |reading: &Reading| reading.judge(self.now, config.max_age, config.clock_skew);
        let mut use_problems: Vec<(String, Problem)> =
            self.use_problem.iter().map(|problem| ("cpu".to_owned(), problem.clone())).collect();
        let mut pods = self.pods.clone();
        let mut worst = None;
        for container in pods.iter_mut().flat_map(|pod| &mut pod.containers) {
            for reading in [&mut container.cpu, &mut container.memory] {
                if let Some(Err(problem)) = reading.as_ref().map(believe) {
                    worst.get_or_insert(problem);
                    *reading = None;
                }
            }
        }
        let ready = || pods.iter().filter(|pod| pod.is_ready);
        let is_silent = ready().next().is_some()
            && ready().flat_map(|pod| &pod.containers).all(|container| container.cpu.is_none());
        if is_silent && use_problems.is_empty() {
            let problem = worst.unwrap_or(Problem::Missing { source: Source::MetricsApi });
            use_problems.push(("cpu".to_owned(), problem));
        }

        let mut other_problems = Vec::new();
        let judged = |name: String,
                      given: &Result<Reading, Problem>,
                      problems: &mut Vec<(String, Problem)>| {
            let judged = given.as_ref().map_err(Clone::clone).and_then(believe);
            judged
                .map(|reading| reading.value)
                .map_err(|problem| problems.push((name, problem)))
                .ok()
        };
        let name = match plan.goal {
            Some(Goal::Throughput { .. }) => "throughput",
            _ => "latency",
        };
        let mut objective = self
            .objective
            .as_ref()
            .and_then(|given| judged(name.to_owned(), given, &mut other_problems));
        let queries = self.queries.iter().enumerate();
        let queries = queries
            .map(|(place, given)| {
                judged(
                    format!("spec.goals.metrics query {}", place + 1),
                    given,
                    &mut other_problems,
                )
            })
            .collect();
        let uses_cpu = ready()
            .flat_map(|pod| &pod.containers)
            .any(|container| container.cpu.is_some_and(|cpu| cpu.value > 0.0));
        // Nobody answers in no time: a latency of zero is what a query makes of nothing.
        if name == "latency" && objective == Some(0.0) {
            let why = "a latency of 0 s cannot be: the query seems to count nothing";
            other_problems.push((name.to_owned(), Problem::Contradictory { why }));
            objective = None;
        }
        if use_problems.is_empty()
            && ready().next().is_some()
            && !uses_cpu
            && objective.is_some_and(|o| o > 0.0)
        {
            let why = "no pod uses any CPU, and yet requests are answered";
            use_problems.push(("cpu".to_owned(), Problem::Contradictory { why }));
        }
        let uses_no_memory = |container: &ContainerInputs| {
            container.memory.is_some_and(|memory| memory.value == 0.0)
        };
        let mut containers = ready().flat_map(|pod| &pod.containers).peekable();
        if use_problems.is_empty() && containers.peek().is_some() && containers.all(uses_no_memory)
        {
            let why = "pods run, and none uses any memory: the figures of use are made up";
            use_problems.push(("memory".to_owned(), Problem::Contradictory { why }));
        }
        let problems = Problems { usage: use_problems, other: other_problems };
        Judged { problems, pods, objective, queries }
    }

    /// Kills of containers whose memory is sized: no pod gets larger for the sake of others.
    fn kills_of_sized(&self, plan: &Plan) -> u32 {
        let sized = self.oom_kills.iter().filter(|(name, _)| plan.container(name).memory.is_some());
        sized.map(|(_, kills)| kills).sum()
    }

    /// What the containers of each pod request.
    pub(super) fn sizes(&self) -> impl Iterator<Item = Sizes> + '_ {
        let size = |container: &ContainerInputs| {
            (container.name.clone(), (container.cpu_request, container.memory_request))
        };
        self.pods.iter().map(move |pod| pod.containers.iter().map(size).collect())
    }

    /// What a pod requests now, mean over the pods; none without pods.
    pub(super) fn allocation(&self) -> Option<Allocation> {
        let pods = self.pods.len() as u64;
        if pods == 0 {
            return None;
        }
        let containers = || self.pods.iter().flat_map(|pod| &pod.containers);
        let cpu: u64 = containers().map(|container| container.cpu_request.millicores()).sum();
        let memory: u64 = containers().map(|container| container.memory_request.bytes()).sum();
        Some(Allocation {
            replicas: self.replicas,
            cpu: Millicores::new(cpu.div_ceil(pods)),
            memory: Bytes::new(memory.div_ceil(pods)),
        })
    }
}

impl Judged {
    /// Whether no pod that serves uses any CPU; none if nothing is known.
    pub(super) fn uses_no_cpu(&self) -> Option<bool> {
        let ready = self.pods.iter().filter(|pod| pod.is_ready);
        let mut used =
            ready.flat_map(|pod| &pod.containers).filter_map(|found| found.cpu).peekable();
        used.peek()?;
        Some(used.all(|cpu| cpu.value == 0.0))
    }

    /// What the decision is made of.
    pub(super) fn observation(
        &self,
        inputs: &Inputs,
        plan: &Plan,
        allocation: Allocation,
    ) -> Observation {
        let sum = |pod: &PodInputs, figure: fn(&ContainerInputs) -> Option<Reading>| {
            let figures = pod.containers.iter().map(figure);
            figures.map(|reading| reading.map(|reading| reading.value)).sum::<Option<f64>>()
        };
        let replicas = self.pods.iter().map(|pod| ReplicaSample {
            started: pod.started,
            is_ready: pod.is_ready,
            served_throughout: pod.served_throughout,
            cpu_request: Some(pod.cpu_request()),
            cpu_cores: sum(pod, |container| container.cpu),
            memory: sum(pod, |container| container.memory).map(|bytes| Bytes::new(bytes as u64)),
        });
        let (slo, latency) = self.latency(plan);
        Observation {
            now: inputs.now,
            window: inputs.window,
            allocation,
            slo,
            isolated_latency: slo.threshold(),
            latency,
            arrivals_per_s: self.arrivals_per_s(plan),
            concurrency: 0.0,
            waiting: 0,
            oom_kills: inputs.kills_of_sized(plan),
            replicas: replicas.collect(),
            queries: self.queries.clone(),
            measured: inputs.allocation(),
            slo_status: None,
            metrics: self.problems.status(),
            service_time: None,
            team: Vec::new(),
        }
    }

    /// Requests that are answered are requests that came; nothing else tells of arrivals.
    fn arrivals_per_s(&self, plan: &Plan) -> f64 {
        match plan.goal {
            Some(Goal::Throughput { .. }) => self.objective.unwrap_or(0.0),
            _ => 0.0,
        }
    }

    /// Objective and figure as a latency. A throughput is turned round: half of what is wanted
    /// is like twice the time that is allowed.
    fn latency(&self, plan: &Plan) -> (Slo, Option<SimDuration>) {
        let seconds = |value: f64| SimDuration::from_seconds(value).ok();
        match &plan.goal {
            Some(Goal::Latency { slo, .. }) => (*slo, self.objective.and_then(seconds)),
            Some(Goal::Throughput { threshold, .. }) => {
                let one = placeholder_slo(SimDuration::from_secs(1));
                (one, self.objective.and_then(|rate| seconds(threshold / rate.max(1e-9))))
            }
            None => (placeholder_slo(SimDuration::from_secs(3600)), None),
        }
    }
}

fn placeholder_slo(threshold: SimDuration) -> Slo {
    Slo::try_new(Fraction::from_percent(99), threshold).expect("99 % and a time above zero")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_served_throughout_if_it_was_ready_before_it_was_measured() {
        let at = |seconds| SimTime::ZERO + SimDuration::from_secs(seconds);
        let served = |ready_since: Option<u64>, measured_from: Option<u64>| {
            let pod = PodRecord {
                name: "checkout-1".to_owned(),
                uid: String::new(),
                started: at(0),
                ready_since: ready_since.map(at),
                unready_since: None,
                has_failed: false,
                is_leaving: false,
                was_sized: false,
                resize: None,
                containers: Vec::new(),
            };
            let used = PodUse {
                namespace: "shop".to_owned(),
                name: "checkout-1".to_owned(),
                measured_from: measured_from.map(at),
                containers: Vec::new(),
            };
            PodInputs::measured(&pod, Some(&used)).served_throughout
        };
        assert_eq!(served(Some(20), Some(20)), Some(true));
        assert_eq!(served(Some(20), Some(19)), Some(false));
        assert_eq!(served(Some(20), None), None);
        assert_eq!(served(None, Some(20)), None);
    }
}
