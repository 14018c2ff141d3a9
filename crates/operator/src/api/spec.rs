//! What people write. Every field says what it does, since these comments are what
//! `kubectl explain mpa` shows.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::MultidimPodAutoscalerStatus;

/// Scales a workload in both directions at once: the number of its pods and their size.
#[expect(clippy::duplicated_attributes, reason = "columns of one type are no duplicates")]
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "homeostat.dev",
    version = "v1alpha1",
    kind = "MultidimPodAutoscaler",
    plural = "multidimpodautoscalers",
    shortname = "mpa",
    category = "all",
    namespaced,
    status = "MultidimPodAutoscalerStatus",
    derive = "PartialEq",
    doc = "Scales a workload in both directions at once: the number of its pods and their size.",
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.scaleTargetRef.name"),
    printcolumn(name = "Replicas", type_ = "string", json_path = ".status.summary.replicas"),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.summary.cpu"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.summary.memory"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        priority = "1",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MultidimPodAutoscalerSpec {
    /// The workload: anything with a scale subresource, in the same namespace.
    pub scale_target_ref: ScaleTargetRef,
    /// How far it goes: `Off` does nothing, `Recommend` writes recommendations into the status
    /// and changes nothing, `Canary` tries every change on a part of the pods first, `Auto`
    /// carries it out.
    #[serde(default)]
    pub mode: Mode,
    /// How changes reach running pods.
    #[serde(default)]
    pub policy: UpdatePolicy,
    /// What is to be kept: an objective, and metrics as those of the horizontal autoscaler.
    #[serde(default)]
    pub goals: Goals,
    /// What no recommendation gets around.
    pub constraints: Constraints,
    /// Who recommends. At most one; `joint` if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1))]
    pub recommenders: Vec<RecommenderRef>,
}

/// The workload that is scaled.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct ScaleTargetRef {
    /// Group and version, such as `apps/v1`.
    #[schemars(length(min = 1))]
    pub api_version: String,
    /// Kind, such as `Deployment`.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Name, in the namespace of this object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How far the autoscaler goes.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Mode {
    /// Nothing is measured and nothing is changed.
    Off,
    /// Recommendations are written into the status; nothing is changed.
    #[default]
    Recommend,
    /// Every change is tried on a part of the pods, and goes on when the objective held.
    Canary,
    /// Changes are carried out.
    Auto,
}

/// How changes reach running pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePolicy {
    /// How new sizes reach pods that run: `InPlaceOrRecreate` resizes where the server can and
    /// evicts elsewhere, `InPlace` never evicts, `Recreate` always does, `Initial` sizes new
    /// pods only.
    #[serde(default)]
    pub update_mode: UpdateMode,
    /// Limits of disruption, beside the budgets of the cluster, which always hold.
    #[serde(default)]
    pub disruption: DisruptionLimits,
    /// Times at which running pods may be resized or evicted. At any time if there is none.
    /// The number of pods follows the load at all times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub maintenance: Vec<MaintenanceWindow>,
    /// How a change is tried in mode `Canary`.
    #[serde(default)]
    pub canary: CanaryPolicy,
    /// When a change that hurt is taken back.
    #[serde(default)]
    pub breaker: BreakerPolicy,
}

/// How new sizes reach pods that run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateMode {
    /// Resized where the server can, evicted elsewhere.
    #[default]
    InPlaceOrRecreate,
    /// Resized where the server can; never evicted.
    InPlace,
    /// Always by eviction.
    Recreate,
    /// Only pods that start are sized.
    Initial,
}

/// Limits of disruption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionLimits {
    /// Pods, or a part of them such as `10%`, that may be away at once because of us. At
    /// least one.
    #[serde(default = "DisruptionLimits::default_max_unavailable")]
    #[schemars(regex(pattern = r"^[0-9]+%?$"))]
    pub max_unavailable: String,
    /// Evictions in any hour, for the whole workload. The status remembers each of them.
    #[serde(default = "DisruptionLimits::default_evictions_per_hour")]
    #[schemars(range(min = 0, max = 10_000))]
    pub evictions_per_hour: u32,
    /// Time that a pod is left alone after it became ready.
    #[serde(default = "DisruptionLimits::default_least_pod_age")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub least_pod_age: String,
}

impl DisruptionLimits {
    fn default_max_unavailable() -> String {
        "10%".to_owned()
    }

    fn default_evictions_per_hour() -> u32 {
        60
    }

    fn default_least_pod_age() -> String {
        "1m".to_owned()
    }
}

impl Default for DisruptionLimits {
    fn default() -> Self {
        Self {
            max_unavailable: Self::default_max_unavailable(),
            evictions_per_hour: Self::default_evictions_per_hour(),
            least_pod_age: Self::default_least_pod_age(),
        }
    }
}

/// A time that comes back every week.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// Days; every day if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
    /// When it begins, in hours and minutes of UTC, such as `02:30`.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub from: String,
    /// When it ends, in hours and minutes of UTC; before `from` for a window over midnight.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub to: String,
}

/// A day of the week.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Day {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

/// How a change is tried in mode `Canary`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryPolicy {
    /// Pods, or a part of them such as `20%`, that get a new size first. At least one.
    #[serde(default = "CanaryPolicy::default_pods")]
    #[schemars(regex(pattern = r"^[0-9]+%?$"))]
    pub pods: String,
    /// How long they are watched before the others follow.
    #[serde(default = "CanaryPolicy::default_watch")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub watch: String,
}

impl CanaryPolicy {
    fn default_pods() -> String {
        "1".to_owned()
    }

    fn default_watch() -> String {
        "5m".to_owned()
    }
}

impl Default for CanaryPolicy {
    fn default() -> Self {
        Self { pods: Self::default_pods(), watch: Self::default_watch() }
    }
}

/// When a change that hurt is taken back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BreakerPolicy {
    /// A downward change is taken back if the objective, kept before, is broken within this
    /// time after it. `0s` for never.
    #[serde(default = "BreakerPolicy::default_watch")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub watch: String,
    /// After that, nothing goes down for this long.
    #[serde(default = "BreakerPolicy::default_hold")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub hold: String,
}

impl BreakerPolicy {
    fn default_watch() -> String {
        "5m".to_owned()
    }

    fn default_hold() -> String {
        "30m".to_owned()
    }
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { watch: Self::default_watch(), hold: Self::default_hold() }
    }
}

/// What is to be kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Goals {
    /// The objective of the workload. Without one, only use is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<SloGoal>,
    /// Metrics as those of the horizontal autoscaler; the one that asks for the most pods wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub metrics: Vec<MetricGoal>,
}

/// An objective: exactly one of `latency` and `throughput`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SloGoal {
    /// Latency at a percentile is to stay at or below a threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyGoal>,
    /// Requests answered in a second are to stay at or above a threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputGoal>,
}

/// Latency at a percentile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LatencyGoal {
    /// The percentile, such as `99` or `99.9`.
    #[schemars(regex(pattern = r"^[0-9]{1,2}(\.[0-9]+)?$"))]
    pub percentile: String,
    /// The threshold, such as `250ms`.
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub threshold: String,
    /// Prometheus query for the latency at that percentile, in seconds: one number.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
}

/// Requests answered in a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThroughputGoal {
    /// Requests per second, such as `120` or `0.5`.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))]
    pub threshold: String,
    /// Prometheus query for the requests answered per second: one number.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
}

/// One metric with its target: exactly one of `resource` and `prometheus`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricGoal {
    /// CPU or memory of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetric>,
    /// The answer of a Prometheus query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusMetric>,
}

/// CPU or memory of the pods, as a part of what they request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMetric {
    /// `cpu` or `memory`.
    pub name: ControlledResource,
    /// Mean use over the pods, in percent of their requests.
    #[schemars(range(min = 1, max = 1000))]
    pub average_utilization: u32,
}

/// The answer of a Prometheus query, shared by the pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrometheusMetric {
    /// The query: one number, of the workload as a whole.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// How much of it each pod is to have.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))]
    pub average_value: String,
}

/// A resource that can be sized.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ControlledResource {
    /// CPU time.
    Cpu,
    /// Memory.
    Memory,
}

/// What no recommendation gets around.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Constraints {
    /// Of the workload as a whole.
    pub global: GlobalConstraints,
    /// Resources that are sized; both if the field is left out, none if it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_controlled_resources: Option<Vec<ControlledResource>>,
    /// Of single containers, by name; `*` for all that are not named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub container: Vec<ContainerConstraints>,
}

/// Bounds and speed of the number of pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobalConstraints {
    /// Fewest pods.
    #[serde(default = "GlobalConstraints::default_min_replicas")]
    #[schemars(range(min = 1, max = 100_000))]
    pub min_replicas: u32,
    /// Most pods.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_replicas: u32,
    /// How fast the number may change, as for the horizontal autoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behavior: Option<Behavior>,
}

impl GlobalConstraints {
    fn default_min_replicas() -> u32 {
        1
    }
}

/// How fast the number of pods may change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// On the way up. By default the larger of 100 % and 4 pods in 15 s, at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// On the way down. By default no limit but the largest recommendation of the last 60 s
    /// (`joint`) or 300 s (`hpa+vpa`, as HPA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// Rules of one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRules {
    /// The mildest recommendation of this many seconds counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub stabilization_window_seconds: Option<u32>,
    /// Which of several policies counts: `Max` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SelectPolicy>,
    /// Largest changes in given times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub policies: Option<Vec<ScalingRule>>,
}

/// Which of several policies counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectPolicy {
    /// The one that allows the most.
    Max,
    /// The one that allows the least.
    Min,
    /// This direction is closed.
    Disabled,
}

/// At most this change in this time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRule {
    /// What `value` counts.
    #[serde(rename = "type")]
    pub kind: ScalingRuleKind,
    /// Pods or percent.
    #[schemars(range(min = 1, max = 100_000))]
    pub value: u32,
    /// In this many seconds.
    #[schemars(range(min = 1, max = 1800))]
    pub period_seconds: u32,
}

/// What a rule counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScalingRuleKind {
    /// A number of pods.
    Pods,
    /// Percent of the pods at the beginning of the period.
    Percent,
}

/// Bounds of one container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerConstraints {
    /// Name of the container, or `*` for all that are not named.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Whether it is sized at all.
    #[serde(default)]
    pub mode: ContainerMode,
    /// Bounds of its requests.
    #[serde(default)]
    pub requests: RequestBounds,
}

/// Whether a container is sized.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContainerMode {
    /// It is sized.
    #[default]
    Auto,
    /// It keeps what its template says.
    Off,
}

/// Bounds of requests. A limit in the pod's template keeps its proportion to the request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestBounds {
    /// Least of `cpu` and `memory`.
    #[serde(default)]
    pub min_allowed: ResourceAmounts,
    /// Most of `cpu` and `memory`.
    #[serde(default)]
    pub max_allowed: ResourceAmounts,
}

/// Amounts as Kubernetes writes them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceAmounts {
    /// Cores, such as `250m` or `1.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Bytes, such as `512Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}

/// Who recommends: at most one of `policyFile` and `external`, for the recommenders `policy` and
/// `external`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecommenderRef {
    /// `joint` (the default), `hpa+vpa` (both, as people run them today), `policy` (a policy
    /// file of this project) or `external` (your own, over gRPC).
    pub name: RecommenderName,
    /// Where the policy file of `policy` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_file: Option<PolicyFileRef>,
    /// What the recommender `external` answers with, and how fast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalRef>,
}

/// Recommenders by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RecommenderName {
    /// One decision for both dimensions.
    #[default]
    #[serde(rename = "joint")]
    Joint,
    /// Kubernetes' two autoscalers, neither knowing of the other.
    #[serde(rename = "hpa+vpa")]
    HpaVpa,
    /// A policy file of this project.
    #[serde(rename = "policy")]
    Policy,
    /// Your own, over gRPC.
    #[serde(rename = "external")]
    External,
}

/// A policy file in a config map of the same namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyFileRef {
    /// Name of the config map.
    #[schemars(length(min = 1, max = 253))]
    pub config_map: String,
    /// Key of its binary data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// An external recommender: a learner that connects to the operator and acts in the workload as
/// it would in a simulated world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalRef {
    /// What it answers with: `Steps` (one step of one dimension, as `faas/function-v1` takes
    /// them) or `Allocation` (pods, and cores and GiB of each).
    #[serde(default)]
    pub actions: LearnerActions,
    /// How long it may take to answer; after that `joint` recommends in its place.
    #[serde(default = "ExternalRef::default_timeout")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub timeout: String,
}

/// What a learner answers with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LearnerActions {
    /// One step of one dimension.
    #[default]
    Steps,
    /// Pods, and cores and GiB of each.
    Allocation,
}

impl ExternalRef {
    fn default_timeout() -> String {
        "2s".to_owned()
    }
}

impl Default for ExternalRef {
    fn default() -> Self {
        Self { actions: LearnerActions::default(), timeout: Self::default_timeout() }
    }
}
