//! Builds the status of an object from a recommendation. No clock, no network.

use std::time::Duration;

use homeostat_core::{Bytes, Millicores, SimTime};
use homeostat_decide::{Allocation, MetricsTrust};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::engine::Outcome;
use super::inputs::{ContainerInputs, Inputs, PodInputs};
use crate::api::{
    Acting, Alternatives, ConditionReason, ConditionType, ContainerRecommendation, DecisionRecord,
    Goal, InFlightQuery, MeasuredMetric, MultidimPodAutoscalerStatus, Plan, PodAllocation,
    Recommendation, ResourceAmounts, Summary, cpu_quantity, memory_quantity,
};
use crate::measure::{Problem, Reading, Source};
use crate::update::tolerated;
use crate::workload::Scaled;

/// Decisions in a status.
const MAX_DECISIONS: usize = 10;

/// Builds the status of one object at one time.
pub struct StatusBuilder<'a> {
    /// Generation of its spec.
    pub generation: Option<i64>,
    /// Its status before.
    pub previous: &'a MultidimPodAutoscalerStatus,
    /// The time.
    pub now: SimTime,
    /// A recent outage of the API server.
    pub outage: Option<Outage>,
}

/// Why there is no recommendation for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Reason of the condition `Ready`.
    pub reason: ConditionReason,
    /// Its message.
    pub message: String,
}

impl Refused {
    /// A reason with its message.
    pub fn new(reason: ConditionReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// A period in which the API server did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// When it answered again.
    pub ended: Timestamp,
    /// How long it had not answered.
    pub lasted: Duration,
}

/// A time as the API server writes it, in whole seconds.
pub fn time(at: SimTime) -> Time {
    let seconds = i64::try_from(at.nanos() / 1_000_000_000).unwrap_or(i64::MAX);
    Time(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX))
}

/// A time of the API server; times before 1970 count as 1970.
pub fn sim_time(at: &Time) -> SimTime {
    SimTime::from_nanos(u64::try_from(at.0.as_nanosecond()).unwrap_or(0))
}

impl StatusBuilder<'_> {
    /// The status of an object without a recommendation: it contains nothing that the updater could
    /// apply.
    pub fn refused(&self, refused: &Refused) -> MultidimPodAutoscalerStatus {
        let status = MultidimPodAutoscalerStatus {
            observed_generation: self.generation,
            decisions: self.previous.decisions.clone(),
            learning: self.previous.learning.clone(),
            conditions: vec![
                self.condition(ConditionType::Ready, Some(false), refused.reason, &refused.message),
                self.acting(),
            ],
            ..MultidimPodAutoscalerStatus::default()
        };
        // The webhook still sizes new pods, unless the recommendation was for another target.
        let is_silent = refused.reason == ConditionReason::ServerUnavailable;
        let is_of_this_spec = self.previous.observed_generation == self.generation;
        if refused.reason.is_temporary() && (is_silent || is_of_this_spec) {
            let previous = self.previous.clone();
            let mut conditions = status.conditions;
            // Canaries of the recommended size are judged by it.
            let slo_met = ConditionType::SloMet.to_string();
            conditions.extend(previous.conditions.into_iter().filter(|one| one.type_ == slo_met));
            return MultidimPodAutoscalerStatus {
                recommended_at: previous.recommended_at,
                selector: previous.selector,
                current_replicas: previous.current_replicas.filter(|_| is_silent),
                desired_replicas: previous.desired_replicas,
                recommendation: previous.recommendation,
                conditions,
                ..status
            };
        }
        status
    }

    /// The status of an object with a recommendation.
    pub fn recommended(
        &self,
        plan: &Plan,
        scaled: &Scaled,
        inputs: &Inputs,
        outcome: &Outcome,
    ) -> MultidimPodAutoscalerStatus {
        let applied = outcome.decision.applied();
        MultidimPodAutoscalerStatus {
            observed_generation: self.generation,
            summary: Some(summary(outcome.decision.from(), applied)),
            recommended_at: Some(time(self.now)),
            selector: Some(scaled.selector.clone()),
            current_replicas: Some(scaled.replicas),
            desired_replicas: Some(applied.replicas),
            recommendation: Some(recommendation(plan, outcome)),
            alternatives: Some(alternatives(outcome)),
            current_metrics: measured(plan, inputs),
            decisions: self.decisions(plan, outcome),
            conditions: self.conditions(plan, outcome),
            ..MultidimPodAutoscalerStatus::default()
        }
    }

    fn conditions(&self, plan: &Plan, outcome: &Outcome) -> Vec<Condition> {
        let name = plan.recommender.name();
        let (reason, mut message) = match &outcome.absence {
            None => (ConditionReason::AsPlanned, format!("{name} recommends")),
            Some(absence) => (absence.reason, format!("{name}: {}", absence.message)),
        };
        for deprecated in &plan.deprecated {
            message.push_str(&format!("; {deprecated}"));
        }
        if let Some(Outage { ended, lasted }) = self.outage {
            let (seconds, ended) = (lasted.as_secs(), ended.strftime("%H:%M:%S"));
            let outage =
                format!("; the API server did not answer for {seconds}s until {ended} UTC");
            message.push_str(&outage);
        }
        let ready = self.condition(ConditionType::Ready, Some(true), reason, &message);
        let metrics = self.metrics_fresh(outcome);
        let limited = ConditionType::ScalingLimited;
        let limited = if outcome.is_limited {
            let reason = if outcome.is_rolled_back {
                ConditionReason::RolledBack
            } else {
                ConditionReason::Limited
            };
            self.condition(limited, Some(true), reason, &outcome.reasons.join("; "))
        } else {
            let message = "no guard limits the recommendation";
            self.condition(limited, Some(false), ConditionReason::AsPlanned, message)
        };
        vec![ready, metrics, limited, self.acting(), self.slo_met(plan, outcome)]
    }

    fn slo_met(&self, plan: &Plan, outcome: &Outcome) -> Condition {
        let (status, reason, message) = match (plan.goal.is_some(), outcome.is_slo_met) {
            (true, None) if outcome.is_reached == Some(false) => (
                None,
                ConditionReason::FewRequests,
                "the throughput is not reached and usage is low: too few requests arrive",
            ),
            (false, _) => {
                (None, ConditionReason::NoSlo, "spec.goals.slo is not set: usage alone decides")
            }
            (true, None) => (None, ConditionReason::MetricsMissing, "the SLO is not measured now"),
            (true, Some(true)) => (Some(true), ConditionReason::AsPlanned, "the SLO is met"),
            (true, Some(false)) => {
                (Some(false), ConditionReason::SloViolated, "the SLO is violated")
            }
        };
        self.condition(ConditionType::SloMet, status, reason, message)
    }

    /// The updater's state as a condition. The recommender writes it, because old API servers treat
    /// a list of conditions as one field with one owner.
    fn acting(&self) -> Condition {
        let kind = ConditionType::Acting;
        let acting = self.previous.rollout.as_ref().and_then(|rollout| rollout.acting.as_ref());
        match acting {
            None => {
                let message = "the updater has not processed it yet";
                self.condition(kind, None, ConditionReason::NoRecommendation, message)
            }
            Some(Acting { is_acting, reason, message }) => {
                let as_planned = ConditionReason::AsPlanned;
                let condition = self.condition(kind, Some(*is_acting), as_planned, message);
                Condition { reason: reason.clone(), ..condition }
            }
        }
    }

    fn metrics_fresh(&self, outcome: &Outcome) -> Condition {
        let verdict = &outcome.verdict;
        let Some((_, worst)) = verdict.problems.first() else {
            let message = "all metrics are fresh and valid";
            let reason = ConditionReason::AsPlanned;
            return self.condition(ConditionType::MetricsFresh, Some(true), reason, message);
        };
        let has_fallen_back =
            matches!(verdict.trust, MetricsTrust::UtilizationOnly | MetricsTrust::None);
        let reason = match worst {
            _ if has_fallen_back => ConditionReason::FallenBack,
            Problem::Unreachable { .. } | Problem::Missing { .. } | Problem::Ambiguous { .. } => {
                ConditionReason::MetricsMissing
            }
            Problem::Stale { .. } | Problem::FromTheFuture { .. } => ConditionReason::MetricsStale,
            Problem::NotAnAmount { .. } => ConditionReason::MetricsInvalid,
            Problem::Contradictory { .. } => ConditionReason::MetricsContradictory,
        };
        let problems: Vec<String> =
            verdict.problems.iter().map(|(name, problem)| format!("{name}: {problem}")).collect();
        let consequence = match verdict.trust {
            MetricsTrust::Full => "still within tolerance",
            MetricsTrust::Hold { .. } => "nothing is changed",
            MetricsTrust::UtilizationOnly => {
                "fallback: usage alone decides, and nothing is scaled down"
            }
            MetricsTrust::None => "fallback: nothing is changed except to stay within bounds",
        };
        let message = format!("{}; {consequence}", problems.join("; "));
        self.condition(ConditionType::MetricsFresh, Some(false), reason, &message)
    }

    /// A condition, whose transition time changes only with its status.
    pub fn condition(
        &self,
        kind: ConditionType,
        is_true: Option<bool>,
        reason: ConditionReason,
        message: &str,
    ) -> Condition {
        let type_ = kind.to_string();
        let status = match is_true {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let before = self.previous.conditions.iter().find(|before| before.type_ == type_);
        let since = before.filter(|before| before.status == status);
        Condition {
            last_transition_time: since
                .map_or_else(|| time(self.now), |before| before.last_transition_time.clone()),
            message: message.chars().take(2000).collect(),
            observed_generation: self.generation,
            reason: reason.to_string(),
            status: status.to_owned(),
            type_,
        }
    }

    /// The latest decision, and the ones before it that changed something; the latest first.
    fn decisions(&self, plan: &Plan, outcome: &Outcome) -> Vec<DecisionRecord> {
        let decision = &outcome.decision;
        let latest = DecisionRecord {
            at: time(self.now),
            recommender: plan.recommender.name().to_owned(),
            from: pod_allocation(decision.from()),
            proposed: pod_allocation(decision.proposed()),
            applied: pod_allocation(decision.applied()),
            reasons: outcome.reasons.clone(),
        };
        let is_change = |record: &&DecisionRecord| record.from != record.applied;
        let mut decisions: Vec<DecisionRecord> = vec![latest];
        decisions.extend(self.previous.decisions.iter().filter(is_change).cloned());
        // A change that is not applied yet, or only recommended, is decided again and again.
        decisions
            .dedup_by(|older, newer| older.from == newer.from && older.applied == newer.applied);
        decisions.truncate(MAX_DECISIONS);
        decisions
    }
}

fn summary(from: &Allocation, to: &Allocation) -> Summary {
    let change = |from: String, to: String| if from == to { from } else { format!("{from}->{to}") };
    Summary {
        replicas: change(from.replicas.to_string(), to.replicas.to_string()),
        cpu: change(cpu_quantity(from.cpu).0, cpu_quantity(to.cpu).0),
        memory: change(memory_quantity(from.memory).0, memory_quantity(to.memory).0),
    }
}

fn pod_allocation(allocation: &Allocation) -> PodAllocation {
    PodAllocation {
        replicas: allocation.replicas,
        cpu: cpu_quantity(allocation.cpu),
        memory: memory_quantity(allocation.memory),
    }
}

fn amounts((cpu, memory): (Millicores, Bytes)) -> ResourceAmounts {
    ResourceAmounts { cpu: Some(cpu_quantity(cpu)), memory: Some(memory_quantity(memory)) }
}

/// The recommended sizes of containers. It leaves out resources that are not controlled, since the
/// updater would otherwise keep pods at an old size after a change of their template, and resources
/// that containers do not request as long as their need is unknown.
fn recommendation(plan: &Plan, outcome: &Outcome) -> Recommendation {
    let recommend = |(name, &target): (&String, &(Millicores, Bytes))| {
        let sized = plan.container(name);
        let of_sized = |size: (Millicores, Bytes)| {
            let ResourceAmounts { cpu, memory } = amounts(size);
            ResourceAmounts {
                cpu: cpu.filter(|_| sized.cpu.is_some() && size.0 > Millicores::ZERO),
                memory: memory.filter(|_| sized.memory.is_some() && size.1 > Bytes::ZERO),
            }
        };
        let (low, high) = tolerated(target);
        let uncapped = outcome.uncapped_containers.get(name).copied().unwrap_or(target);
        let recommendation = ContainerRecommendation {
            container_name: name.clone(),
            target: of_sized(target),
            lower_bound: of_sized(low),
            upper_bound: of_sized(high),
            uncapped_target: of_sized(uncapped),
        };
        (sized.cpu.is_some() || sized.memory.is_some()).then_some(recommendation)
    };
    Recommendation {
        container_recommendations: outcome.containers.iter().filter_map(recommend).collect(),
    }
}

fn alternatives(outcome: &Outcome) -> Alternatives {
    Alternatives {
        hpa_replicas: outcome.hpa_replicas,
        vpa_target: outcome.vpa_size.map(amounts).unwrap_or_default(),
        policy: outcome.shadow.as_ref().map(pod_allocation),
        reasons: outcome.alternative_reasons.clone(),
    }
}

/// The measured metrics: means over the pods, then the SLO and the queries.
fn measured(plan: &Plan, inputs: &Inputs) -> Vec<MeasuredMetric> {
    let used = |figure: fn(&ContainerInputs) -> Option<Reading>| {
        let containers = inputs.pods.iter().flat_map(|pod| &pod.containers);
        let readings: Vec<Reading> = containers.filter_map(figure).collect();
        let is_known = |pod: &&PodInputs| pod.containers.iter().any(|one| figure(one).is_some());
        let pods = inputs.pods.iter().filter(is_known).count() as f64;
        let oldest = readings.iter().min_by_key(|reading| reading.at)?;
        let mean = readings.iter().map(|reading| reading.value).sum::<f64>() / pods;
        Some(Reading { value: mean, ..*oldest })
    };
    let cpu = used(|container| container.cpu);
    let memory = used(|container| container.memory);
    let quantity = |cores: f64| Millicores::from_cores(cores).map(|cpu| cpu_quantity(cpu).0);
    let problem = |reading: Option<Reading>| match (&inputs.use_problem, reading) {
        (Some(problem), _) => Some(problem.to_string()),
        (None, None) => Some(Problem::Missing { source: Source::MetricsApi }.to_string()),
        (None, Some(_)) => None,
    };
    let of_pods = |name: &str, reading: Option<Reading>, value: Option<String>| MeasuredMetric {
        name: name.to_owned(),
        value,
        source: Source::MetricsApi.to_string(),
        measured_at: reading.map(|reading| time(reading.at)),
        problem: problem(reading),
    };
    let mut measured = vec![
        of_pods("CPU per pod", cpu, cpu.and_then(|cpu| quantity(cpu.value).ok())),
        of_pods(
            "memory per pod",
            memory,
            memory.map(|memory| memory_quantity(Bytes::new(memory.value as u64)).0),
        ),
    ];
    let asked = |name: String, answer: &Result<Reading, Problem>, unit: &str| MeasuredMetric {
        name,
        value: answer.as_ref().ok().map(|reading| format!("{:.4}{unit}", reading.value)),
        source: Source::Prometheus.to_string(),
        measured_at: answer.as_ref().ok().map(|reading| time(reading.at)),
        problem: answer.as_ref().err().map(ToString::to_string),
    };
    if let (Some(goal), Some(answer)) = (&plan.goal, &inputs.objective) {
        let (name, unit) = match goal {
            Goal::Latency { .. } => ("latency", "s"),
            Goal::Throughput { .. } => ("throughput", "/s"),
        };
        measured.push(asked(name.to_owned(), answer, unit));
    }
    for (index, answer) in inputs.queries.iter().enumerate() {
        measured.push(asked(format!("query {}", index + 1), answer, ""));
    }
    if let Some(answer) = &inputs.load.request_rate {
        measured.push(asked("request rate".to_owned(), answer, "/s"));
    }
    if let (Some(query), Some(answer)) = (&plan.load.in_flight, &inputs.load.in_flight) {
        let (name, unit) = match query {
            InFlightQuery::Count(_) => ("requests in flight", ""),
            InFlightQuery::MeanLatency(_) => ("mean latency", "s"),
        };
        measured.push(asked(name.to_owned(), answer, unit));
    }
    measured
}
