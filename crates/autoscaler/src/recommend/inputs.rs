//! What is measured of a workload at one reconcile.

use std::collections::BTreeMap;

use homeostat_core::{Bytes, Fraction, Millicores, SimDuration, SimTime, Slo};
use homeostat_decide::{Allocation, Observation, ReplicaSample, TeamState};

use crate::api::{Goal, InFlightQuery, LoadPlan, Plan};
use crate::measure::{PodUse, Problem, Problems, Reading, Source, TrustConfig};
use crate::update::Sizes;
use crate::workload::{ContainerRecord, PodRecord};

/// What is measured of a workload at one reconcile.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// The time.
    pub now: SimTime,
    /// The window over which metrics are means.
    pub window: SimDuration,
    /// Replicas in the spec of the workload.
    pub replicas: u32,
    /// Its pods.
    pub pods: Vec<PodInputs>,
    /// Out-of-memory kills since the last reconcile, by container.
    pub oom_kills: BTreeMap<String, u32>,
    /// Why the usage of no pod is known, if so.
    pub use_problem: Option<Problem>,
    /// The measured latency or throughput; none if the object has no SLO.
    pub objective: Option<Result<Reading, Problem>>,
    /// The answers of the plan's queries, in their order.
    pub queries: Vec<Result<Reading, Problem>>,
    /// Answers of the queries of the load.
    pub load: LoadInputs,
    /// The other members of its team; none outside of a team.
    pub team: Option<TeamState>,
}

/// The measured load; none where the object has no query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadInputs {
    /// Requests that arrive per second.
    pub request_rate: Option<Result<Reading, Problem>>,
    /// Requests in flight, or their mean latency in seconds, as the plan has it.
    pub in_flight: Option<Result<Reading, Problem>>,
}

impl LoadInputs {
    /// The answers of a plan's queries, in the order of [`LoadPlan::queries`].
    pub fn of_answers(
        plan: &LoadPlan,
        answers: impl IntoIterator<Item = Result<Reading, Problem>>,
    ) -> Self {
        let mut answers = answers.into_iter();
        let request_rate = plan.request_rate.as_ref().and_then(|_| answers.next());
        let in_flight = plan.in_flight.as_ref().and_then(|_| answers.next());
        Self { request_rate, in_flight }
    }
}

/// One pod.
#[derive(Debug, Clone, PartialEq)]
pub struct PodInputs {
    /// Its name.
    pub name: String,
    /// When it started.
    pub started: SimTime,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Whether it was ready in the whole window of its metrics; none if that is not known.
    pub served_throughout: Option<bool>,
    /// Its containers.
    pub containers: Vec<ContainerInputs>,
}

/// One container of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerInputs {
    /// Its name.
    pub name: String,
    /// Its CPU request.
    pub cpu_request: Millicores,
    /// Its memory request.
    pub memory_request: Bytes,
    /// Its CPU usage, in cores.
    pub cpu: Option<Reading>,
    /// Its memory usage, in bytes.
    pub memory: Option<Reading>,
}

/// Checks the answer of a query: its value, or none after its problem was recorded by name.
type Judge<'a> =
    dyn Fn(String, &Result<Reading, Problem>, &mut Vec<(String, Problem)>) -> Option<f64> + 'a;

/// Inputs after a check of every metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    /// Their problems.
    pub(super) problems: Problems,
    /// The pods, without the metrics that are not trusted.
    pub(super) pods: Vec<PodInputs>,
    /// The measured latency or throughput.
    pub(super) objective: Option<f64>,
    /// The answers of the queries.
    pub(super) queries: Vec<Option<f64>>,
    load: JudgedLoad,
}

/// The load. Its problems concern only policies that read it.
#[derive(Debug, Clone, Default, PartialEq)]
struct JudgedLoad {
    /// Requests that arrive per second.
    request_rate: Option<f64>,
    /// Requests in flight.
    in_flight: Option<f64>,
    problems: Vec<(String, Problem)>,
}

impl PodInputs {
    /// A pod with its usage from the metrics API.
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

    /// The sum of the CPU requests of its containers.
    fn cpu_request(&self) -> Millicores {
        let requests = self.containers.iter().map(|container| container.cpu_request.millicores());
        Millicores::new(requests.sum())
    }
}

impl Inputs {
    /// Checks every metric.
    pub(super) fn judge(&self, plan: &Plan, config: &TrustConfig) -> Judged {
        let check = |reading: &Reading| reading.judge(self.now, config.max_age, config.clock_skew);
        let mut use_problems: Vec<(String, Problem)> =
            self.use_problem.iter().map(|problem| ("cpu".to_owned(), problem.clone())).collect();
        let mut pods = self.pods.clone();
        let mut worst = None;
        for container in pods.iter_mut().flat_map(|pod| &mut pod.containers) {
            for reading in [&mut container.cpu, &mut container.memory] {
                if let Some(Err(problem)) = reading.as_ref().map(check) {
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
            let judged = given.as_ref().map_err(Clone::clone).and_then(check);
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
        let load = self.judge_load(plan, objective, &judged);
        let uses_cpu = ready()
            .flat_map(|pod| &pod.containers)
            .any(|container| container.cpu.is_some_and(|cpu| cpu.value > 0.0));
        // No request takes no time: a query that counts nothing returns a latency of zero.
        if name == "latency" && objective == Some(0.0) {
            let why = "a latency of 0 s is impossible: the query seems to count nothing";
            other_problems.push((name.to_owned(), Problem::Contradictory { why }));
            objective = None;
        }
        if use_problems.is_empty()
            && ready().next().is_some()
            && !uses_cpu
            && objective.is_some_and(|o| o > 0.0)
        {
            let why = "no pod uses any CPU, but requests are answered";
            use_problems.push(("cpu".to_owned(), Problem::Contradictory { why }));
        }
        let uses_no_memory = |container: &ContainerInputs| {
            container.memory.is_some_and(|memory| memory.value == 0.0)
        };
        let mut containers = ready().flat_map(|pod| &pod.containers).peekable();
        if use_problems.is_empty() && containers.peek().is_some() && containers.all(uses_no_memory)
        {
            let why = "pods run, but none uses any memory: the usage metrics are wrong";
            use_problems.push(("memory".to_owned(), Problem::Contradictory { why }));
        }
        let problems = Problems { usage: use_problems, other: other_problems };
        Judged { problems, pods, objective, queries, load }
    }

    fn judge_load(&self, plan: &Plan, objective: Option<f64>, judged: &Judge<'_>) -> JudgedLoad {
        let mut load = JudgedLoad::default();
        load.request_rate = match (&self.load.request_rate, &plan.goal) {
            (Some(given), _) => judged("request rate".to_owned(), given, &mut load.problems),
            // Requests that are answered are requests that came.
            (None, Some(Goal::Throughput { .. })) => objective,
            (None, _) => None,
        };
        let query = plan.load.in_flight.as_ref().zip(self.load.in_flight.as_ref());
        load.in_flight = match (load.request_rate, query) {
            // Nothing is in flight, and the mean of no latencies is no number.
            (Some(0.0), _) => Some(0.0),
            (_, Some((InFlightQuery::Count(_), given))) => {
                judged("requests in flight".to_owned(), given, &mut load.problems)
            }
            (rate, Some((InFlightQuery::MeanLatency(_), given))) => {
                let latency = judged("mean latency".to_owned(), given, &mut load.problems);
                rate.zip(latency).map(|(rate, latency)| rate * latency)
            }
            (_, None) => None,
        };
        load
    }

    /// Kills of containers whose memory is controlled: those of other containers make no pod larger.
    fn kills_of_sized(&self, plan: &Plan) -> u32 {
        let sized = self.oom_kills.iter().filter(|(name, _)| plan.container(name).memory.is_some());
        sized.map(|(_, kills)| kills).sum()
    }

    /// The requests of the containers of each pod.
    pub(super) fn sizes(&self) -> impl Iterator<Item = Sizes> + '_ {
        let size = |container: &ContainerInputs| {
            (container.name.clone(), (container.cpu_request, container.memory_request))
        };
        self.pods.iter().map(move |pod| pod.containers.iter().map(size).collect())
    }

    /// The requests of a pod, as a mean over the pods; none without pods.
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
    /// Whether no ready pod uses any CPU; none if no usage is known.
    pub(super) fn uses_no_cpu(&self) -> Option<bool> {
        let ready = self.pods.iter().filter(|pod| pod.is_ready);
        let mut used =
            ready.flat_map(|pod| &pod.containers).filter_map(|found| found.cpu).peekable();
        used.peek()?;
        Some(used.all(|cpu| cpu.value == 0.0))
    }

    /// The observation for a decision.
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
        let serving = self.pods.iter().filter(|pod| pod.is_ready).count() as u32;
        let concurrency = self.load.in_flight.unwrap_or(f64::NAN);
        Observation {
            now: inputs.now,
            window: inputs.window,
            allocation,
            slo,
            isolated_latency: slo.threshold(),
            latency,
            arrivals_per_s: self.load.request_rate.unwrap_or(f64::NAN),
            concurrency,
            // A replica of the environments in which policies learn serves one request at a time.
            waiting: (concurrency - f64::from(serving)).max(0.0).round() as u64,
            oom_kills: inputs.kills_of_sized(plan),
            replicas: replicas.collect(),
            queries: self.queries.clone(),
            measured: inputs.allocation(),
            slo_status: None,
            metrics: self.problems.status(),
            service_time: plan.load.service_time,
            team: inputs.team,
            chain: None,
        }
    }

    /// Why a policy that needs the load cannot be asked, with the fix; none if all is known.
    pub(super) fn missing_for_load(&self, plan: &Plan) -> Option<String> {
        if plan.goal.is_none() {
            return Some("it needs an SLO: set spec.goals.slo".to_owned());
        }
        let JudgedLoad { request_rate, in_flight, problems } = &self.load;
        if request_rate.is_some() && in_flight.is_some() {
            return None;
        }
        if let Some((name, problem)) = problems.first() {
            return Some(format!("it needs the {name}: {problem}"));
        }
        let is_throughput = matches!(plan.goal, Some(Goal::Throughput { .. }));
        Some(match request_rate {
            None if is_throughput => "it needs the throughput, which is not known now".to_owned(),
            None => "it needs the request rate: set spec.load.requestRateQuery".to_owned(),
            Some(_) => "it needs the requests in flight: set spec.load.meanLatencyQuery or \
                        spec.load.requestsInFlightQuery"
                .to_owned(),
        })
    }

    /// Whether the request rate is known.
    pub(super) fn knows_request_rate(&self) -> bool {
        self.load.request_rate.is_some()
    }

    /// The SLO and its metric as a latency. A throughput is inverted: half of the wanted throughput
    /// counts as twice the allowed latency.
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
