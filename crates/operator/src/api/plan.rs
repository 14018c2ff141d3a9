//! Validation of a spec, beyond what its schema can express.

use std::collections::BTreeMap;

use homeostat_core::{Bounds, Bytes, Fraction, Millicores, SimDuration, Slo};
use homeostat_decide::{
    AutoRollbackConfig, CanaryConfig, HpaMetric, PodScaling, ScalingBehavior, ScalingPolicy,
    ScalingRules as Rules, ScalingStep, SelectPolicy as Select, Share,
};

use super::amounts::{NotAnAmount, cores, duration, memory_bytes};
use super::spec::{
    AutoRollbackPolicy, Behavior, CanaryPolicy, ContainerConstraints, ContainerMode,
    ControlledResource, Day, DisruptionLimits, LearnerActions, MaintenanceWindow, MetricGoal, Mode,
    MultidimPodAutoscalerSpec, PolicyFileRef, RecommenderName, RecommenderRef, ResourceAmounts,
    ScaleTargetRef, ScalingRuleKind, ScalingRules, SelectPolicy, SloGoal, UpdateMode,
};

/// An invalid field of a spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct PlanError {
    /// Path of the field.
    pub field: String,
    /// What is wrong, and how to correct it.
    pub problem: String,
}

impl PlanError {
    fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

type Result<T> = std::result::Result<T, PlanError>;

/// A validated spec.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The workload.
    pub target: ScaleTargetRef,
    /// What the autoscaler may do.
    pub mode: Mode,
    /// How sizes are applied to running pods.
    pub update_mode: UpdateMode,
    /// The SLO and its query.
    pub goal: Option<Goal>,
    /// Metrics of HPA that are based on the pods' usage.
    pub resource_metrics: Vec<HpaMetric>,
    /// Queries with their target per pod.
    pub query_metrics: Vec<(String, f64)>,
    /// Bounds of the number of pods.
    pub replicas: Bounds<u32>,
    /// How fast that number may change, as far as the spec says.
    behavior: Option<Behavior>,
    /// Bounds of the containers that the spec names.
    containers: BTreeMap<String, ContainerPlan>,
    /// Bounds of all other containers.
    other_containers: ContainerPlan,
    /// Limits of disruption.
    pub disruption: Disruption,
    /// When pods may be resized or evicted; always if empty.
    pub maintenance: Vec<Window>,
    /// Share of the pods that get a new size first, and how long they are observed.
    pub canary: CanaryConfig,
    /// How long a downward change is observed, and how long nothing is scaled down after a rollback.
    pub auto_rollback: AutoRollbackConfig,
    /// The recommender.
    pub recommender: Recommender,
    /// Deprecated fields that are used, each with the field to use instead.
    pub deprecated: Vec<String>,
}

/// An SLO.
#[derive(Debug, Clone, PartialEq)]
pub enum Goal {
    /// Maximum latency at a percentile.
    Latency {
        /// Percentile and threshold.
        slo: Slo,
        /// Query of the latency in seconds.
        query: String,
    },
    /// Minimum of requests answered per second.
    Throughput {
        /// Requests per second.
        threshold: f64,
        /// Query of the throughput.
        query: String,
    },
}

/// Limits of disruption.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disruption {
    /// Maximum number of pods that the autoscaler may make unavailable at once.
    pub max_unavailable: Share,
    /// Maximum number of evictions in any hour.
    pub evictions_per_hour: u32,
    /// Time after a pod became ready during which it is not resized or evicted.
    pub min_pod_age: SimDuration,
}

/// Bounds of one container.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ContainerPlan {
    /// Bounds of its CPU; none if it is not controlled.
    pub cpu: Option<Bounds<Millicores>>,
    /// Bounds of its memory; none if it is not controlled.
    pub memory: Option<Bounds<Bytes>>,
}

/// A weekly time window, in minutes of the week from Monday 00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its first minute.
    pub from: u32,
    /// Its duration in minutes.
    pub minutes: u32,
}

const DAY_MINUTES: u32 = 24 * 60;
const WEEK_MINUTES: u32 = 7 * DAY_MINUTES;

impl Window {
    /// Whether a minute of the week lies inside.
    pub fn contains(&self, minute: u32) -> bool {
        (minute + WEEK_MINUTES - self.from) % WEEK_MINUTES < self.minutes
    }
}

/// A recommender.
#[derive(Debug, Clone, PartialEq)]
pub enum Recommender {
    /// One decision for both dimensions.
    Joint,
    /// Kubernetes' two autoscalers.
    HpaVpa,
    /// A policy file.
    Policy(PolicyFileRef),
    /// A learner over gRPC: its actions, and the time limit of its answers.
    External(LearnerActions, SimDuration),
}

impl Recommender {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Joint => "joint",
            Self::HpaVpa => "hpa+vpa",
            Self::Policy(_) => "policy",
            Self::External(..) => "external",
        }
    }
}

impl Plan {
    /// How fast the number of pods may change; `default` for what the spec does not say.
    pub fn behavior(&self, default: ScalingBehavior) -> ScalingBehavior {
        match &self.behavior {
            Some(behavior) => read_behavior(behavior, default),
            None => default,
        }
    }

    /// Validates a spec.
    pub fn try_new(spec: &MultidimPodAutoscalerSpec) -> Result<Self> {
        let global = &spec.constraints.global;
        let (low, high) = (global.min_replicas, global.max_replicas);
        let replicas = Bounds::try_new(low, high).map_err(|_| {
            let problem = format!("minReplicas {low} is above maxReplicas {high}; lower it");
            PlanError::new("spec.constraints.global", problem)
        })?;
        if low == 0 {
            let problem = "0 pods cannot serve requests; at least 1";
            return Err(PlanError::new("spec.constraints.global.minReplicas", problem));
        }
        let (resource_metrics, query_metrics) = read_metrics(&spec.goals.metrics)?;
        let resources = spec.constraints.container_controlled_resources.as_deref();
        let (containers, other_containers) =
            read_containers(&spec.constraints.container, resources)?;
        let policy = &spec.policy;
        let mut deprecated = Vec::new();
        let auto_rollback = RenamedField {
            parent: "spec.policy",
            name: "autoRollback",
            value: &policy.auto_rollback,
            old_name: "breaker",
            old_value: &policy.breaker,
        };
        let auto_rollback = auto_rollback.resolve(AutoRollbackPolicy::default, &mut deprecated)?;
        let (field, auto_rollback) = (auto_rollback.field, auto_rollback.value);
        let auto_rollback = AutoRollbackConfig {
            watch: read_duration(&format!("{field}.watch"), &auto_rollback.watch)?,
            hold: read_duration(&format!("{field}.hold"), &auto_rollback.hold)?,
        };
        Ok(Self {
            target: spec.scale_target_ref.clone(),
            mode: spec.mode,
            update_mode: policy.update_mode,
            goal: spec.goals.slo.as_ref().map(read_goal).transpose()?,
            resource_metrics,
            query_metrics,
            replicas,
            behavior: global.behavior.clone(),
            containers,
            other_containers,
            disruption: read_disruption(&policy.disruption, &mut deprecated)?,
            maintenance: read_maintenance(&policy.maintenance)?,
            canary: read_canary(&policy.canary)?,
            auto_rollback,
            recommender: read_recommender(&spec.recommenders)?,
            deprecated,
        })
    }

    /// Bounds of a container.
    pub fn container(&self, name: &str) -> ContainerPlan {
        self.containers.get(name).copied().unwrap_or(self.other_containers)
    }

    /// Containers that the spec names, to check whether the target has them.
    pub fn named_containers(&self) -> impl Iterator<Item = &str> {
        self.containers.keys().map(String::as_str)
    }

    /// Whether running pods may be resized or evicted in this minute of the week.
    pub fn is_maintenance(&self, minute_of_week: u32) -> bool {
        self.maintenance.is_empty()
            || self.maintenance.iter().any(|window| window.contains(minute_of_week))
    }
}

fn read_duration(field: &str, text: &str) -> Result<SimDuration> {
    duration(text).map_err(|refused| PlanError::new(field, refused.to_string()))
}

fn read_positive(field: &str, text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(PlanError::new(field, format!("{text:?} is not a number above 0"))),
    }
}

fn read_goal(slo: &SloGoal) -> Result<Goal> {
    match (&slo.latency, &slo.throughput) {
        (Some(latency), None) => {
            let field = "spec.goals.slo.latency";
            let percent = read_positive(&format!("{field}.percentile"), &latency.percentile)?;
            let threshold = read_duration(&format!("{field}.threshold"), &latency.threshold)?;
            let slo = Fraction::from_ratio(percent / 100.0)
                .and_then(|percentile| Slo::try_new(percentile, threshold))
                .map_err(|refused| PlanError::new(field, refused.to_string()))?;
            Ok(Goal::Latency { slo, query: latency.query.clone() })
        }
        (None, Some(throughput)) => {
            let field = "spec.goals.slo.throughput.threshold";
            let threshold = read_positive(field, &throughput.threshold)?;
            Ok(Goal::Throughput { threshold, query: throughput.query.clone() })
        }
        (None, None) => Err(PlanError::new(
            "spec.goals.slo",
            "neither latency nor throughput; name one, or leave slo out",
        )),
        (Some(_), Some(_)) => {
            Err(PlanError::new("spec.goals.slo", "both latency and throughput; keep one"))
        }
    }
}

/// Metrics of the pods' usage, and queries with their target per pod.
type Metrics = (Vec<HpaMetric>, Vec<(String, f64)>);

fn read_metrics(metrics: &[MetricGoal]) -> Result<Metrics> {
    let (mut resources, mut queries) = (Vec::new(), Vec::new());
    for (place, metric) in metrics.iter().enumerate() {
        let field = format!("spec.goals.metrics[{place}]");
        match (&metric.resource, &metric.prometheus) {
            (Some(resource), None) => {
                let target_percent = resource.average_utilization;
                if target_percent == 0 {
                    let field = format!("{field}.resource.averageUtilization");
                    return Err(PlanError::new(field, "0 is not a valid target; at least 1"));
                }
                resources.push(match resource.name {
                    ControlledResource::Cpu => HpaMetric::CpuUtilization { target_percent },
                    ControlledResource::Memory => HpaMetric::MemoryUtilization { target_percent },
                });
            }
            (None, Some(prometheus)) => {
                let field = format!("{field}.prometheus.averageValue");
                let target = read_positive(&field, &prometheus.average_value)?;
                queries.push((prometheus.query.clone(), target));
            }
            (None, None) => {
                return Err(PlanError::new(field, "neither resource nor prometheus; name one"));
            }
            (Some(_), Some(_)) => {
                let problem = "both resource and prometheus; split it into two metrics";
                return Err(PlanError::new(field, problem));
            }
        }
    }
    Ok((resources, queries))
}

fn read_behavior(behavior: &Behavior, default: ScalingBehavior) -> ScalingBehavior {
    let rules = |given: &Option<ScalingRules>, default: Rules| {
        let Some(given) = given else { return default };
        Rules {
            stabilization: given
                .stabilization_window_seconds
                .map_or(default.stabilization, |seconds| SimDuration::from_secs(seconds.into())),
            select: given.select_policy.map_or(default.select, |select| match select {
                SelectPolicy::Max => Select::Max,
                SelectPolicy::Min => Select::Min,
                SelectPolicy::Disabled => Select::Disabled,
            }),
            policies: given.policies.as_ref().map_or(default.policies, |policies| {
                let read = |rule: &super::spec::ScalingRule| ScalingPolicy {
                    step: match rule.kind {
                        ScalingRuleKind::Pods => ScalingStep::Replicas(rule.value),
                        ScalingRuleKind::Percent => ScalingStep::Percent(rule.value),
                    },
                    period: SimDuration::from_secs(rule.period_seconds.into()),
                };
                policies.iter().map(read).collect()
            }),
        }
    };
    ScalingBehavior {
        up: rules(&behavior.scale_up, default.up),
        down: rules(&behavior.scale_down, default.down),
    }
}

/// Without bounds a container may have any size between VPA's minimum and more than any node has.
fn read_containers(
    constraints: &[ContainerConstraints],
    resources: Option<&[ControlledResource]>,
) -> Result<(BTreeMap<String, ContainerPlan>, ContainerPlan)> {
    let is_controlled =
        |resource| resources.is_none_or(|resources: &[_]| resources.contains(&resource));
    let free = ContainerPlan {
        cpu: is_controlled(ControlledResource::Cpu).then(|| {
            Bounds::try_new(Millicores::new(1), Millicores::new(1_000_000)).expect("1 is less")
        }),
        memory: is_controlled(ControlledResource::Memory).then(|| {
            Bounds::try_new(Bytes::from_mib(1), Bytes::from_mib(1 << 24)).expect("1 is less")
        }),
    };
    let mut named = BTreeMap::new();
    for (place, given) in constraints.iter().enumerate() {
        let field = format!("spec.constraints.container[{place}]");
        let plan = match given.mode {
            ContainerMode::Off => ContainerPlan { cpu: None, memory: None },
            ContainerMode::Auto => {
                let ResourceAmounts { cpu: least_cpu, memory: least_memory } =
                    &given.requests.min_allowed;
                let ResourceAmounts { cpu: most_cpu, memory: most_memory } =
                    &given.requests.max_allowed;
                ContainerPlan {
                    cpu: narrow(&field, "cpu", free.cpu, least_cpu, most_cpu, cores)?,
                    memory: narrow(
                        &field,
                        "memory",
                        free.memory,
                        least_memory,
                        most_memory,
                        memory_bytes,
                    )?,
                }
            }
        };
        if named.insert(given.name.clone(), plan).is_some() {
            let problem = format!("container {:?} is named twice; keep one", given.name);
            return Err(PlanError::new(field, problem));
        }
    }
    let others = named.remove("*").unwrap_or(free);
    Ok((named, others))
}

fn narrow<Q, T: Copy + Ord + std::fmt::Display>(
    field: &str,
    resource: &str,
    free: Option<Bounds<T>>,
    least: &Option<Q>,
    most: &Option<Q>,
    read: impl Fn(&Q) -> std::result::Result<T, NotAnAmount>,
) -> Result<Option<Bounds<T>>> {
    let Some(free) = free else { return Ok(None) };
    let amount = |which: &str, given: &Option<Q>, default: T| match given {
        Some(quantity) => read(quantity).map_err(|refused| {
            PlanError::new(format!("{field}.requests.{which}.{resource}"), refused.to_string())
        }),
        None => Ok(default),
    };
    let low = amount("minAllowed", least, free.low())?;
    let high = amount("maxAllowed", most, free.high())?;
    Bounds::try_new(low, high).map(Some).map_err(|_| {
        let problem = format!("minAllowed {resource} {low} is above maxAllowed {high}; lower it");
        PlanError::new(format!("{field}.requests"), problem)
    })
}

fn read_disruption(limits: &DisruptionLimits, deprecated: &mut Vec<String>) -> Result<Disruption> {
    let parent = "spec.policy.disruption";
    let min_pod_age = RenamedField {
        parent,
        name: "minPodAge",
        value: &limits.min_pod_age,
        old_name: "leastPodAge",
        old_value: &limits.least_pod_age,
    };
    let min_pod_age = min_pod_age.resolve(DisruptionLimits::default_min_pod_age, deprecated)?;
    Ok(Disruption {
        max_unavailable: read_share(&format!("{parent}.maxUnavailable"), &limits.max_unavailable)?,
        evictions_per_hour: limits.evictions_per_hour,
        min_pod_age: read_duration(&min_pod_age.field, &min_pod_age.value)?,
    })
}

/// A field that has another name since this release. The old one stays in the schema for one
/// release, since the API server drops fields that are not in it.
struct RenamedField<'a, T> {
    parent: &'a str,
    name: &'a str,
    value: &'a Option<T>,
    old_name: &'a str,
    old_value: &'a Option<T>,
}

/// A value and the field that it comes from.
struct FieldValue<T> {
    field: String,
    value: T,
}

impl<T: Clone + PartialEq> RenamedField<'_, T> {
    /// The value of the field, under either name; appends to `deprecated` if it is the old one.
    fn resolve(
        self,
        default: impl FnOnce() -> T,
        deprecated: &mut Vec<String>,
    ) -> Result<FieldValue<T>> {
        let Self { parent, name, value, old_name, old_value } = self;
        let (field, old_field) = (format!("{parent}.{name}"), format!("{parent}.{old_name}"));
        let default = default();
        // The schema of the release before had this default, which the API server wrote into
        // every object: it does not mean that a user typed it.
        let old_value = old_value.as_ref().filter(|old| **old != default);
        match (value, old_value) {
            (Some(value), Some(old)) if old != value => {
                let problem = format!("deprecated and in conflict with {name}; remove {old_name}");
                Err(PlanError::new(old_field, problem))
            }
            (Some(value), _) => Ok(FieldValue { field, value: value.clone() }),
            (None, Some(old)) => {
                deprecated.push(format!("{old_field} is deprecated, use {name}"));
                Ok(FieldValue { field: old_field, value: old.clone() })
            }
            (None, None) => Ok(FieldValue { field, value: default }),
        }
    }
}

/// Reads a number of pods or a percentage of them.
fn read_share(field: &str, text: &str) -> Result<Share> {
    let refused = || {
        PlanError::new(
            field,
            format!("{text:?} is not a number of pods or a percentage, such as 1 or 10%"),
        )
    };
    match text.strip_suffix('%') {
        Some(percent) => match percent.parse().map_err(|_| refused())? {
            percent @ 0..=100 => Ok(Share::Part(Fraction::from_percent(percent))),
            _ => Err(PlanError::new(field, format!("{text} is more than 100%"))),
        },
        None => text.parse::<u32>().map(|pods| Share::Count(pods.into())).map_err(|_| refused()),
    }
}

fn read_canary(canary: &CanaryPolicy) -> Result<CanaryConfig> {
    let pods = read_share("spec.policy.canary.pods", &canary.pods)?;
    let watch = read_duration("spec.policy.canary.watch", &canary.watch)?;
    Ok(CanaryConfig { dimension: PodScaling::REPLICAS, share: pods, watch })
}

fn read_maintenance(windows: &[MaintenanceWindow]) -> Result<Vec<Window>> {
    const WEEK: [Day; 7] = [Day::Mon, Day::Tue, Day::Wed, Day::Thu, Day::Fri, Day::Sat, Day::Sun];
    let mut all = Vec::new();
    for (place, window) in windows.iter().enumerate() {
        let field = format!("spec.policy.maintenance[{place}]");
        let from = read_time(&format!("{field}.from"), &window.from)?;
        let to = read_time(&format!("{field}.to"), &window.to)?;
        if from == to {
            let problem = format!("{} to {} is empty; give it a duration", window.from, window.to);
            return Err(PlanError::new(field, problem));
        }
        let minutes = (to + DAY_MINUTES - from) % DAY_MINUTES;
        let is_selected = |day: &Day| window.days.is_empty() || window.days.contains(day);
        let days = WEEK.iter().enumerate().filter(|(_, day)| is_selected(day));
        all.extend(days.map(|(day, _)| Window { from: day as u32 * DAY_MINUTES + from, minutes }));
    }
    Ok(all)
}

/// Minutes of the day of a time such as `02:30`.
fn read_time(field: &str, text: &str) -> Result<u32> {
    let parsed = text.split_once(':').and_then(|(hours, minutes)| {
        let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
        (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
    });
    parsed.ok_or_else(|| {
        PlanError::new(field, format!("{text:?} is not a time of day, such as 02:30"))
    })
}

/// A shorter time limit would exclude every learner.
const MIN_TIMEOUT: SimDuration = SimDuration::from_millis(10);
/// The object is not reconciled while its learner computes.
const MAX_TIMEOUT: SimDuration = SimDuration::from_secs(30);

fn read_recommender(recommenders: &[RecommenderRef]) -> Result<Recommender> {
    let field = "spec.recommenders";
    let given = match recommenders {
        [] => return Ok(Recommender::Joint),
        [one] => one,
        more => {
            let problem = format!("{} recommenders; at most one", more.len());
            return Err(PlanError::new(field, problem));
        }
    };
    let needless = |given: bool, part: &str, name: &str| {
        let problem = format!("{part} is only for the recommender {name:?}; remove it");
        if given { Err(PlanError::new(format!("{field}[0].{part}"), problem)) } else { Ok(()) }
    };
    if given.name != RecommenderName::Policy {
        needless(given.policy_file.is_some(), "policyFile", "policy")?;
    }
    if given.name != RecommenderName::External {
        needless(given.external.is_some(), "external", "external")?;
    }
    let missing = |part: &str| PlanError::new(format!("{field}[0].{part}"), "missing; add it");
    Ok(match given.name {
        RecommenderName::Joint => Recommender::Joint,
        RecommenderName::HpaVpa => Recommender::HpaVpa,
        RecommenderName::Policy => {
            Recommender::Policy(given.policy_file.clone().ok_or_else(|| missing("policyFile"))?)
        }
        RecommenderName::External => {
            let external = given.external.clone().unwrap_or_default();
            let field = format!("{field}[0].external.timeout");
            let timeout = read_duration(&field, &external.timeout)?;
            if !(MIN_TIMEOUT..=MAX_TIMEOUT).contains(&timeout) {
                let problem = format!("{} is not between 10ms and 30s", external.timeout);
                return Err(PlanError::new(field, problem));
            }
            Recommender::External(external.actions, timeout)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec() -> Value {
        json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "checkout"},
            "constraints": {"global": {"maxReplicas": 10}},
        })
    }

    fn plan(change: impl FnOnce(&mut Value)) -> Result<Plan> {
        let mut value = spec();
        change(&mut value);
        Plan::try_new(&serde_json::from_value(value).expect("the schema lets it through"))
    }

    #[test]
    fn the_minimal_spec_recommends_and_changes_nothing() {
        let plan = plan(|_| ()).expect("valid");
        assert_eq!(plan.mode, Mode::Recommend);
        assert_eq!(plan.recommender, Recommender::Joint);
        assert_eq!((plan.replicas.low(), plan.replicas.high()), (1, 10));
        assert!(plan.is_maintenance(0));
        let any = plan.container("app");
        assert!(any.cpu.is_some() && any.memory.is_some());
    }

    #[test]
    fn the_recommender_has_defaults_for_missing_parts_of_the_behaviour() {
        let plan = plan(|spec| {
            spec["constraints"]["global"]["behavior"] =
                json!({ "scaleUp": { "stabilizationWindowSeconds": 30 } });
        })
        .expect("valid");
        let mut default = ScalingBehavior::default();
        default.down.stabilization = SimDuration::from_secs(60);
        let behavior = plan.behavior(default.clone());
        assert_eq!(behavior.up.stabilization, SimDuration::from_secs(30));
        assert_eq!(behavior.up.policies, default.up.policies);
        assert_eq!(behavior.down, default.down);
    }

    #[test]
    fn every_contradiction_names_its_field_and_the_correction() {
        let check = |change: fn(&mut Value), field: &str, problem: &str| {
            let refused = plan(change).expect_err(field);
            assert_eq!(refused.field, field, "{refused}");
            assert!(refused.problem.contains(problem), "{refused}");
        };
        check(
            |spec| spec["constraints"]["global"]["minReplicas"] = json!(20),
            "spec.constraints.global",
            "minReplicas 20 is above maxReplicas 10",
        );
        check(|spec| spec["goals"] = json!({"slo": {}}), "spec.goals.slo", "neither");
        check(
            |spec| spec["goals"] = json!({"metrics": [{}]}),
            "spec.goals.metrics[0]",
            "neither resource nor prometheus",
        );
        check(
            |spec| {
                spec["constraints"]["container"] = json!([{"name": "a", "requests":
                    {"minAllowed": {"cpu": "2"}, "maxAllowed": {"cpu": "500m"}}}]);
            },
            "spec.constraints.container[0].requests",
            "above maxAllowed",
        );
        check(
            |spec| {
                spec["constraints"]["container"] =
                    json!([{"name": "a", "requests": {"minAllowed": {"memory": "12 apples"}}}]);
            },
            "spec.constraints.container[0].requests.minAllowed.memory",
            "\"12 apples\" is not a number of bytes",
        );
        check(
            |spec| spec["constraints"]["container"] = json!([{"name": "a"}, {"name": "a"}]),
            "spec.constraints.container[1]",
            "named twice",
        );
        check(
            |spec| {
                spec["recommenders"] = json!([{"name": "external", "external": {"timeout": "2m"}}])
            },
            "spec.recommenders[0].external.timeout",
            "is not between 10ms and 30s",
        );
        check(
            |spec| {
                spec["recommenders"] =
                    json!([{"name": "joint", "policyFile": {"configMap": "a", "key": "b"}}]);
            },
            "spec.recommenders[0].policyFile",
            "remove it",
        );
        check(
            |spec| spec["policy"] = json!({"maintenance": [{"from": "02:00", "to": "02:00"}]}),
            "spec.policy.maintenance[0]",
            "is empty",
        );
        check(
            |spec| spec["policy"] = json!({"disruption": {"maxUnavailable": "200%"}}),
            "spec.policy.disruption.maxUnavailable",
            "more than 100%",
        );
    }

    #[test]
    fn a_deprecated_field_is_used_if_the_new_one_is_absent_and_refused_beside_it() {
        let check =
            |policy: Value, expect: std::result::Result<(f64, f64), &str>, used: &[&str]| {
                let plan = plan(|spec| spec["policy"] = policy.clone());
                let found = plan.as_ref().map(|plan| {
                    (plan.auto_rollback.watch.seconds(), plan.disruption.min_pod_age.seconds())
                });
                match expect {
                    Ok(expect) => assert_eq!(found, Ok(expect), "{policy}"),
                    Err(expect) => {
                        let refused = found.expect_err(expect).to_string();
                        assert!(refused.contains(expect), "{refused}");
                    }
                }
                if let Ok(plan) = plan {
                    assert_eq!(plan.deprecated, used, "{policy}");
                }
            };
        check(json!({}), Ok((300.0, 60.0)), &[]);
        let new = json!({
            "autoRollback": {"watch": "2m"}, "disruption": {"minPodAge": "5s"},
        });
        check(new, Ok((120.0, 5.0)), &[]);
        let old = json!({ "breaker": {"watch": "2m"}, "disruption": {"leastPodAge": "5s"} });
        let used = [
            "spec.policy.breaker is deprecated, use autoRollback",
            "spec.policy.disruption.leastPodAge is deprecated, use minPodAge",
        ];
        check(old, Ok((120.0, 5.0)), &used);
        let both = json!({ "autoRollback": {"watch": "2m"}, "breaker": {"watch": "3m"} });
        let refused = "spec.policy.breaker: deprecated and in conflict with autoRollback; remove";
        check(both, Err(refused), &[]);
        let both = json!({ "disruption": {"minPodAge": "5s", "leastPodAge": "6s"} });
        check(both, Err("spec.policy.disruption.leastPodAge: deprecated and in conflict"), &[]);
        // What the API server of the release before wrote into every object.
        let defaulted = json!({
            "autoRollback": {"watch": "2m"}, "breaker": {"watch": "5m", "hold": "30m"},
            "disruption": {"minPodAge": "5s", "leastPodAge": "1m"},
        });
        check(defaulted, Ok((120.0, 5.0)), &[]);
    }

    #[test]
    fn a_window_may_cross_midnight_and_the_end_of_the_week() {
        let plan = plan(|spec| {
            spec["policy"] =
                json!({"maintenance": [{"days": ["Sun"], "from": "23:00", "to": "01:00"}]});
        })
        .expect("valid");
        let sunday = 6 * DAY_MINUTES;
        assert!(!plan.is_maintenance(sunday + 22 * 60 + 59));
        assert!(plan.is_maintenance(sunday + 23 * 60));
        assert!(plan.is_maintenance(59));
        assert!(!plan.is_maintenance(60));
    }

    #[test]
    fn containers_that_are_not_named_have_the_bounds_of_the_asterisk() {
        let plan = plan(|spec| {
            spec["constraints"]["container"] = json!([
                {"name": "proxy", "mode": "Off"},
                {"name": "*", "requests": {"maxAllowed": {"cpu": "2"}}},
            ]);
        })
        .expect("valid");
        assert_eq!(plan.container("proxy"), ContainerPlan { cpu: None, memory: None });
        assert_eq!(plan.container("app").cpu.map(|cpu| cpu.high()), Some(Millicores::new(2000)));
    }

    #[test]
    fn a_share_of_pods_is_at_least_one() {
        assert_eq!(read_share("f", "10%").map(|share| share.of(5)), Ok(1));
        assert_eq!(read_share("f", "50%").map(|share| share.of(5)), Ok(2));
        assert_eq!(read_share("f", "3").map(|share| share.of(5)), Ok(3));
        assert!(read_share("f", "-1").is_err());
    }
}
