//! Validation of a spec, beyond what its schema can express.

mod change_limits;
mod constraints;
mod disruption;
mod goals;
mod recommender;
mod renamed_field;

use std::collections::BTreeMap;

use homeostat_core::{Bounds, Bytes, Millicores, SimDuration, Slo};
use homeostat_decide::{
    AutoRollbackConfig, CanaryConfig, HpaMetric, ScalingBehavior, ServiceTime, Share,
};

pub use self::change_limits::ChangePlan;
use self::change_limits::read_change_limits;
use self::constraints::{read_behavior, read_containers};
pub use self::disruption::Window;
use self::disruption::{read_canary, read_disruption, read_maintenance};
use self::goals::{read_goal, read_load, read_metrics};
use self::recommender::read_recommender;
use self::renamed_field::RenamedField;
use super::amounts::duration;
use super::learning_spec::LearningMode;
use super::spec::{
    AutoRollbackPolicy, Behavior, LearnerActions, Mode, MultidimPodAutoscalerSpec, PolicyFileRef,
    ScaleTargetRef, UpdateMode,
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
    /// How the load is measured.
    pub load: LoadPlan,
    /// The name of its team; none for the team of all objects without one.
    pub team: Option<String>,
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
    /// How often and how far a recommendation may change.
    pub changes: ChangePlan,
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

/// How the load is measured: queries of Prometheus, and a profile.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadPlan {
    /// Query of the requests that arrive per second.
    pub request_rate: Option<String>,
    /// Query of the requests in flight.
    pub in_flight: Option<InFlightQuery>,
    /// What a request takes when the workload is idle.
    pub service_time: Option<ServiceTime>,
}

/// How the requests in flight are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InFlightQuery {
    /// Their number.
    Count(String),
    /// Their mean latency in seconds: their number is the request rate times that.
    MeanLatency(String),
}

impl LoadPlan {
    /// All its queries, in the order in which their answers are expected.
    pub fn queries(&self) -> impl Iterator<Item = &str> {
        let in_flight = self.in_flight.as_ref().map(|query| match query {
            InFlightQuery::Count(query) | InFlightQuery::MeanLatency(query) => query.as_str(),
        });
        self.request_rate.as_deref().into_iter().chain(in_flight)
    }
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
    /// Kubernetes' two autoscalers act and teach a policy, which acts once it is proven.
    Aware(Box<LearningPlan>),
}

/// How an object learns.
#[derive(Debug, Clone, PartialEq)]
pub struct LearningPlan {
    /// The policy file; none if decisions are only recorded, or policies come from the learner.
    pub policy_file: Option<PolicyFileRef>,
    /// Whether the policy acts once it is proven.
    pub mode: LearningMode,
    /// Length of an episode.
    pub episode_length: SimDuration,
    /// The latest episodes of a stage that count.
    pub episodes: usize,
    /// Mean reward that ends the offline stage.
    pub online_reward: f64,
    /// Mean reward below which a policy gives way.
    pub serving_reward: f64,
    /// Standard deviation of rewards above which a policy gives way.
    pub serving_deviation: f64,
    /// How far the lower bound of a policy's value may lie below the value of `hpa+vpa`.
    pub activation_margin: f64,
    /// Episodes after which thresholds that were never met are reported.
    pub patience: usize,
}

impl Recommender {
    /// How the object learns, if it does.
    pub fn learning(&self) -> Option<&LearningPlan> {
        match self {
            Self::Aware(plan) => Some(plan),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Joint => "joint",
            Self::HpaVpa => "hpa+vpa",
            Self::Policy(_) => "policy",
            Self::External(..) => "external",
            Self::Aware(_) => "aware",
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
            load: read_load(spec)?,
            team: spec.team.clone(),
            replicas,
            behavior: global.behavior.clone(),
            containers,
            other_containers,
            disruption: read_disruption(&policy.disruption, &mut deprecated)?,
            maintenance: read_maintenance(&policy.maintenance)?,
            canary: read_canary(&policy.canary)?,
            auto_rollback,
            changes: read_change_limits(spec.constraints.changes.as_ref())?,
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
            |spec| spec["recommenders"] = json!([{"name": "joint", "aware": {}}]),
            "spec.recommenders[0].aware",
            "only for the recommender \"aware\"",
        );
        check(
            |spec| {
                spec["recommenders"] =
                    json!([{"name": "aware", "aware": {"episodes": 9, "patience": 3}}]);
            },
            "spec.recommenders[0].aware.patience",
            "3 is below the 9 episodes",
        );
        check(
            |spec| {
                spec["recommenders"] =
                    json!([{"name": "aware", "aware": {"servingReward": "1.5"}}]);
            },
            "spec.recommenders[0].aware.servingReward",
            "1.5 can never be reached: a reward is at most 1",
        );
        check(
            |spec| {
                spec["recommenders"] =
                    json!([{"name": "aware", "aware": {"episodeLength": "5ms"}}]);
            },
            "spec.recommenders[0].aware.episodeLength",
            "5ms is not between 1s and 4h",
        );
        check(
            |spec| spec["load"] = json!({"meanLatencyQuery": "q"}),
            "spec.load.requestRateQuery",
            "missing; add it, or a throughput SLO",
        );
        check(
            |spec| {
                spec["load"] = json!({"requestRateQuery": "q", "meanLatencyQuery": "q",
                    "requestsInFlightQuery": "q"});
            },
            "spec.load",
            "keep one",
        );
        check(
            |spec| {
                spec["load"] = json!({"requestRateQuery": "q", "serviceTime": {"cpu": "0s"}});
            },
            "spec.load.serviceTime.cpu",
            "a request without CPU time",
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
        let changes = |changes: Value| json!({"global": {"maxReplicas": 10}, "changes": changes});
        let check_changes = |limits: Value, field: &str, problem: &str| {
            let refused = plan(|spec| spec["constraints"] = changes(limits)).expect_err(field);
            assert_eq!(refused.field, format!("spec.constraints.changes.{field}"), "{refused}");
            assert!(refused.problem.contains(problem), "{refused}");
        };
        check_changes(json!({"coolDown": {"down": "soon"}}), "coolDown.down", "soon");
        check_changes(
            json!({"rateLimit": {"changes": 2, "period": "0s"}}),
            "rateLimit",
            "remove rateLimit for no limit",
        );
        check_changes(json!({"maxSizeStep": "0%"}), "maxSizeStep", "from 1% to 100%");
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
        let sunday = 6 * 24 * 60;
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
}
