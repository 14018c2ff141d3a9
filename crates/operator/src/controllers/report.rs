//! What an outcome looks like in the status of its object. No clock, no network.

use homeostat_core::{Bytes, Millicores, SimTime};
use homeostat_decide::Allocation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use super::standing::{Refused, Standing};
use crate::api::{
    Acting, Alternatives, ConditionReason, ConditionType, ContainerRecommendation, DecisionRecord,
    Goal, MeasuredMetric, MultidimPodAutoscalerStatus, Plan, PodAllocation, Recommendation,
    ResourceAmounts, Summary, cpu_quantity, memory_quantity,
};
use crate::measure::{Problem, Reading, Source, Trust};
use crate::recommend::{Inputs, Outcome, PodInputs};
use crate::telemetry::Outage;
use crate::update::tolerated;

/// Decisions that are kept.
const DECISIONS: usize = 10;

/// What a report is about.
pub(super) struct About<'a> {
    pub(super) generation: Option<i64>,
    pub(super) previous: &'a MultidimPodAutoscalerStatus,
    pub(super) now: SimTime,
    /// When the API server was away, if that was lately.
    pub(super) outage: Option<Outage>,
}

/// A time as the API writes it, to the second.
pub(super) fn time(at: SimTime) -> Time {
    let seconds = i64::try_from(at.nanos() / 1_000_000_000).unwrap_or(i64::MAX);
    Time(Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX))
}

/// A time of the API as ours.
pub(super) fn sim_time(at: &Time) -> SimTime {
    SimTime::from_nanos(u64::try_from(at.0.as_nanosecond()).unwrap_or(0))
}

impl About<'_> {
    /// The status of an object that cannot be worked on: nothing stays that somebody might
    /// carry out.
    pub(super) fn refused(&self, refused: &Refused) -> MultidimPodAutoscalerStatus {
        let status = MultidimPodAutoscalerStatus {
            observed_generation: self.generation,
            decisions: self.previous.decisions.clone(),
            conditions: vec![
                self.condition(ConditionType::Ready, Some(false), refused.reason, &refused.message),
                self.acting(),
            ],
            ..MultidimPodAutoscalerStatus::default()
        };
        // Pods that start meanwhile still get their size, unless it was for another target.
        let is_silent = refused.reason == ConditionReason::ServerUnavailable;
        let is_of_this_spec = self.previous.observed_generation == self.generation;
        if refused.reason.is_of_a_moment() && (is_silent || is_of_this_spec) {
            let previous = self.previous.clone();
            let mut conditions = status.conditions;
            // Whether the size has proved itself stays known.
            let kept = ConditionType::ObjectiveKept.to_string();
            conditions.extend(previous.conditions.into_iter().filter(|one| one.type_ == kept));
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
    pub(super) fn recommended(
        &self,
        plan: &Plan,
        standing: &Standing,
        inputs: &Inputs,
        outcome: &Outcome,
    ) -> MultidimPodAutoscalerStatus {
        let applied = &outcome.decision.applied;
        MultidimPodAutoscalerStatus {
            observed_generation: self.generation,
            summary: Some(summary(&outcome.decision.from, applied)),
            recommended_at: Some(time(self.now)),
            selector: Some(standing.scaled.selector.clone()),
            current_replicas: Some(standing.scaled.replicas),
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
            Some(absence) => (absence.reason, format!("{name}: {}", absence.words)),
        };
        if let Some(Outage { ended, lasted }) = self.outage {
            let (seconds, ended) = (lasted.as_secs(), ended.strftime("%H:%M:%S"));
            let words = format!("; the API server did not answer for {seconds}s until {ended} UTC");
            message.push_str(&words);
        }
        let ready = self.condition(ConditionType::Ready, Some(true), reason, &message);
        let metrics = self.metrics_fresh(outcome);
        let unlimited = if outcome.is_limited {
            let words = outcome.reasons.join("; ");
            let reason = if outcome.is_reverted {
                ConditionReason::Reverted
            } else {
                ConditionReason::Limited
            };
            self.condition(ConditionType::Unlimited, Some(false), reason, &words)
        } else {
            let reason = ConditionReason::AsPlanned;
            let message = "no guardrail stands in the way";
            self.condition(ConditionType::Unlimited, Some(true), reason, message)
        };
        let kept = ConditionType::ObjectiveKept;
        let objective = match (plan.goal.is_some(), outcome.is_kept) {
            (true, None) if outcome.is_reached == Some(false) => {
                let message =
                    "it is not reached, and pods have little to do: too few requests come";
                self.condition(kept, None, ConditionReason::FewRequests, message)
            }
            (false, _) => {
                let message = "spec.goals.slo is not set: use alone decides";
                self.condition(kept, None, ConditionReason::NoObjective, message)
            }
            (true, None) => {
                let message = "the objective is not measured now";
                self.condition(kept, None, ConditionReason::MetricsMissing, message)
            }
            (true, Some(true)) => {
                self.condition(kept, Some(true), ConditionReason::AsPlanned, "it is kept")
            }
            (true, Some(false)) => {
                self.condition(kept, Some(false), ConditionReason::ObjectiveBroken, "it is broken")
            }
        };
        vec![ready, metrics, unlimited, self.acting(), objective]
    }

    /// What the updater says of itself. Servers of old take a list of conditions as one piece:
    /// it has one writer.
    fn acting(&self) -> Condition {
        let kind = ConditionType::Acting;
        let acting = self.previous.rollout.as_ref().and_then(|rollout| rollout.acting.as_ref());
        match acting {
            None => {
                let message = "the updater has not looked at it yet";
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
            let message = "every figure is fresh and makes sense";
            let reason = ConditionReason::AsPlanned;
            return self.condition(ConditionType::MetricsFresh, Some(true), reason, message);
        };
        let has_fallen_back = matches!(verdict.trust, Trust::UseOnly | Trust::Blind);
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
        let what = match verdict.trust {
            Trust::Full => "believed all the same",
            Trust::Hold { .. } => "everything is held as it is",
            Trust::UseOnly => "fallen back to use alone, nothing goes down",
            Trust::Blind => "fallen back: nothing is changed but what bounds demand",
        };
        let message = format!("{}; {what}", problems.join("; "));
        self.condition(ConditionType::MetricsFresh, Some(false), reason, &message)
    }

    /// A condition; the time of its last change stays while its status does.
    pub(super) fn condition(
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

    /// The latest decision first. One that changed nothing gives way to the next.
    fn decisions(&self, plan: &Plan, outcome: &Outcome) -> Vec<DecisionRecord> {
        let decision = &outcome.decision;
        let latest = DecisionRecord {
            at: time(self.now),
            recommender: plan.recommender.name().to_owned(),
            from: pod_allocation(&decision.from),
            proposed: pod_allocation(&decision.proposed),
            applied: pod_allocation(&decision.applied),
            reasons: outcome.reasons.clone(),
        };
        let is_change = |record: &&DecisionRecord| record.from != record.applied;
        let mut kept: Vec<DecisionRecord> = vec![latest];
        kept.extend(self.previous.decisions.iter().filter(is_change).cloned());
        // The same change that is not carried out yet, or only recommended, is one decision.
        kept.dedup_by(|older, newer| older.from == newer.from && older.applied == newer.applied);
        kept.truncate(DECISIONS);
        kept
    }
}

fn summary(from: &Allocation, to: &Allocation) -> Summary {
    let both = |from: String, to: String| if from == to { from } else { format!("{from}->{to}") };
    Summary {
        replicas: both(from.replicas.to_string(), to.replicas.to_string()),
        cpu: both(cpu_quantity(from.cpu).0, cpu_quantity(to.cpu).0),
        memory: both(memory_quantity(from.memory).0, memory_quantity(to.memory).0),
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

/// What containers should have. Of what is not sized nothing is said: whoever carries it out would
/// hold pods to what they had when their template said something else. Nor of what they do not
/// request, as long as nobody knows what they need.
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
        reasons: outcome.alternative_reasons.clone(),
    }
}

/// What was measured, where and when: means over the pods, then the objective and the queries.
fn measured(plan: &Plan, inputs: &Inputs) -> Vec<MeasuredMetric> {
    let used = |figure: fn(&crate::recommend::ContainerInputs) -> Option<Reading>| {
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
    let words = |cores: f64| Millicores::from_cores(cores).map(|cpu| cpu_quantity(cpu).0);
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
        of_pods("cpu of a pod", cpu, cpu.and_then(|cpu| words(cpu.value).ok())),
        of_pods(
            "memory of a pod",
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
    for (place, answer) in inputs.queries.iter().enumerate() {
        measured.push(asked(format!("query {}", place + 1), answer, ""));
    }
    measured
}
