//! The spec of an object. `kubectl explain mpa` shows the comments of the fields.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change_limits::ChangeLimits;
use super::learning_spec::LearningSpec;
use super::status::MultidimPodAutoscalerStatus;

/// Scales a workload in both dimensions at once: the number of its pods and their size.
#[expect(clippy::duplicated_attributes, reason = "columns of one type are not duplicates")]
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
    doc = "Scales a workload in both dimensions at once: the number of its pods and their size.",
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.scaleTargetRef.name"),
    printcolumn(name = "Replicas", type_ = "string", json_path = ".status.summary.replicas"),
    printcolumn(name = "CPU", type_ = "string", json_path = ".status.summary.cpu"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".status.summary.memory"),
    printcolumn(name = "Stage", type_ = "string", json_path = ".status.learning.stage"),
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
    /// The workload: any object with a scale subresource, in the same namespace.
    pub scale_target_ref: ScaleTargetRef,
    /// What the autoscaler may do: `Off` does nothing, `Recommend` writes recommendations into the
    /// status and changes nothing, `Canary` applies every change to a part of the pods first, `Auto`
    /// applies it to all.
    #[serde(default)]
    pub mode: Mode,
    /// How changes are applied to running pods.
    #[serde(default)]
    pub policy: UpdatePolicy,
    /// The goals: an SLO, and metrics as in HPA.
    #[serde(default)]
    pub goals: Goals,
    /// Bounds that every recommendation respects.
    pub constraints: Constraints,
    /// How the load of the workload is measured. Policy files that name set-points, such as those of
    /// `simppo+`, need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadMetrics>,
    /// Name of the team: the objects that share machines, such as those of one node pool. Policy
    /// files may read the other members of their team. All objects without a name form one team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub team: Option<String>,
    /// The recommender. At most one; `joint` by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1))]
    pub recommenders: Vec<RecommenderRef>,
}

/// A workload.
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

/// What the autoscaler may do.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Mode {
    /// Nothing is measured and nothing is changed.
    Off,
    /// Recommendations are written into the status; nothing is changed.
    #[default]
    Recommend,
    /// Every change is applied to a part of the pods first, and to the others if the SLO is met.
    Canary,
    /// Changes are applied.
    Auto,
}

/// How changes are applied to running pods.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdatePolicy {
    /// How new sizes are applied: `InPlaceOrRecreate` resizes pods in place if possible and evicts
    /// them otherwise, `InPlace` never evicts, `Recreate` always evicts, `Initial` sizes new pods
    /// only.
    #[serde(default)]
    pub update_mode: UpdateMode,
    /// Limits of disruption, in addition to PodDisruptionBudgets, which always apply.
    #[serde(default)]
    pub disruption: DisruptionLimits,
    /// Times at which running pods may be resized or evicted; at any time if there is none. They do
    /// not apply to the number of pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub maintenance: Vec<MaintenanceWindow>,
    /// Settings of the mode `Canary`.
    #[serde(default)]
    pub canary: CanaryPolicy,
    /// When a downward change after which the SLO is violated is rolled back. `watch` is `5m` and
    /// `hold` is `30m` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_rollback: Option<AutoRollbackPolicy>,
    /// Deprecated: use `autoRollback`. Used if `autoRollback` is absent; the next release removes
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<AutoRollbackPolicy>,
}

/// How new sizes are applied to running pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateMode {
    /// Pods are resized in place if possible, and evicted otherwise.
    #[default]
    InPlaceOrRecreate,
    /// Pods are resized in place if possible, and never evicted.
    InPlace,
    /// Pods are always evicted.
    Recreate,
    /// Only new pods are sized.
    Initial,
}

/// Limits of disruption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisruptionLimits {
    /// Maximum number of pods, or percentage such as `10%`, that the autoscaler may make unavailable
    /// at once. At least one.
    #[serde(default = "DisruptionLimits::default_max_unavailable")]
    #[schemars(regex(pattern = r"^[0-9]+%?$"))]
    pub max_unavailable: String,
    /// Maximum number of evictions of the workload's pods in any hour.
    #[serde(default = "DisruptionLimits::default_evictions_per_hour")]
    #[schemars(range(min = 0, max = 10_000))]
    pub evictions_per_hour: u32,
    /// Time after a pod became ready during which it is not resized or evicted; `1m` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub min_pod_age: Option<String>,
    /// Deprecated: use `minPodAge`. Used if `minPodAge` is absent; the next release removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub least_pod_age: Option<String>,
}

impl DisruptionLimits {
    fn default_max_unavailable() -> String {
        "10%".to_owned()
    }

    fn default_evictions_per_hour() -> u32 {
        60
    }

    pub(super) fn default_min_pod_age() -> String {
        "1m".to_owned()
    }
}

impl Default for DisruptionLimits {
    fn default() -> Self {
        Self {
            max_unavailable: Self::default_max_unavailable(),
            evictions_per_hour: Self::default_evictions_per_hour(),
            min_pod_age: None,
            least_pod_age: None,
        }
    }
}

/// A weekly time window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceWindow {
    /// Days of the week; every day if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
    /// Start in UTC, such as `02:30`.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub from: String,
    /// End in UTC; before `from` for a window across midnight.
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

/// Settings of the mode `Canary`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryPolicy {
    /// Number of pods, or percentage such as `20%`, that get a new size first. At least one.
    #[serde(default = "CanaryPolicy::default_pods")]
    #[schemars(regex(pattern = r"^[0-9]+%?$"))]
    pub pods: String,
    /// How long they are observed before the others follow.
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

/// When a downward change after which the SLO is violated is rolled back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoRollbackPolicy {
    /// A downward change is rolled back if the SLO, met before, is violated within this time after
    /// it. `0s` disables it.
    #[serde(default = "AutoRollbackPolicy::default_watch")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub watch: String,
    /// After a rollback, nothing is scaled down for this long.
    #[serde(default = "AutoRollbackPolicy::default_hold")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub hold: String,
}

impl AutoRollbackPolicy {
    fn default_watch() -> String {
        "5m".to_owned()
    }

    fn default_hold() -> String {
        "30m".to_owned()
    }
}

impl Default for AutoRollbackPolicy {
    fn default() -> Self {
        Self { watch: Self::default_watch(), hold: Self::default_hold() }
    }
}

/// The goals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Goals {
    /// The SLO of the workload. Without one, usage alone decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<SloGoal>,
    /// Metrics as in HPA; the one that needs the most pods wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub metrics: Vec<MetricGoal>,
}

/// An SLO: exactly one of `latency` and `throughput`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SloGoal {
    /// Latency at a percentile must not exceed a threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyGoal>,
    /// Requests answered per second must not fall below a threshold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputGoal>,
}

/// A latency SLO.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LatencyGoal {
    /// The percentile, such as `99` or `99.9`.
    #[schemars(regex(pattern = r"^[0-9]{1,2}(\.[0-9]+)?$"))]
    pub percentile: String,
    /// The threshold, such as `250ms`.
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub threshold: String,
    /// Prometheus query that returns the latency at that percentile in seconds, as one number.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
}

/// A throughput SLO.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThroughputGoal {
    /// Requests per second, such as `120` or `0.5`.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))]
    pub threshold: String,
    /// Prometheus query that returns the requests answered per second, as one number.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
}

/// How the load of a workload is measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadMetrics {
    /// Prometheus query that returns the requests that arrive per second, as one number. By default
    /// the throughput of the SLO, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub request_rate_query: Option<String>,
    /// Prometheus query that returns the mean latency in seconds, as one number. The requests in
    /// flight are the request rate times this (Little's law).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub mean_latency_query: Option<String>,
    /// Prometheus query that returns the requests in flight, waiting or in service, as one number,
    /// instead of `meanLatencyQuery`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub requests_in_flight_query: Option<String>,
    /// What a request takes when the workload is idle, as it was profiled. By default it is estimated:
    /// CPU usage over the request rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_time: Option<ServiceTimeSpec>,
}

/// What a request takes when the workload is idle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceTimeSpec {
    /// CPU time, such as `12ms`.
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub cpu: String,
    /// Time without CPU (network and disks), such as `30ms`.
    #[serde(default = "ServiceTimeSpec::default_io")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub io: String,
}

impl ServiceTimeSpec {
    fn default_io() -> String {
        "0s".to_owned()
    }
}

/// A metric with its target: exactly one of `resource` and `prometheus`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricGoal {
    /// CPU or memory of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetric>,
    /// The result of a Prometheus query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusMetric>,
}

/// CPU or memory usage of the pods relative to their requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceMetric {
    /// `cpu` or `memory`.
    pub name: ControlledResource,
    /// Target of the mean usage over the pods, in percent of their requests.
    #[schemars(range(min = 1, max = 1000))]
    pub average_utilization: u32,
}

/// The result of a Prometheus query, divided by the number of pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrometheusMetric {
    /// The query, which returns one number for the whole workload.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// Target of the value per pod.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))]
    pub average_value: String,
}

/// A resource that the autoscaler can control.
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

/// Bounds that every recommendation respects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Constraints {
    /// Bounds of the whole workload.
    pub global: GlobalConstraints,
    /// How often and how far a recommendation may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangeLimits>,
    /// Resources that the autoscaler controls; both by default, none if the list is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_controlled_resources: Option<Vec<ControlledResource>>,
    /// Bounds of single containers, by name; `*` for all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub container: Vec<ContainerConstraints>,
}

/// Bounds of the number of pods, and how fast it may change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GlobalConstraints {
    /// Minimum number of pods.
    #[serde(default = "GlobalConstraints::default_min_replicas")]
    #[schemars(range(min = 1, max = 100_000))]
    pub min_replicas: u32,
    /// Maximum number of pods.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_replicas: u32,
    /// How fast the number may change, as in HPA.
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
    /// Rules for scaling up. By default at most the larger of 100 % and 4 pods in 15 s, without a
    /// stabilisation window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// Rules for scaling down. By default only a stabilisation window of 60 s (`joint`) or 300 s
    /// (`hpa+vpa`, as in HPA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// Rules for one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRules {
    /// Stabilisation window: the smallest change recommended in this time is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub stabilization_window_seconds: Option<u32>,
    /// Which of several policies applies: `Max` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SelectPolicy>,
    /// Maximum changes in given periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub policies: Option<Vec<ScalingRule>>,
}

/// Which of several policies applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectPolicy {
    /// The one that allows the largest change.
    Max,
    /// The one that allows the smallest change.
    Min,
    /// Scaling in this direction is disabled.
    Disabled,
}

/// A maximum change in a period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRule {
    /// The unit of `value`.
    #[serde(rename = "type")]
    pub kind: ScalingRuleKind,
    /// The maximum change, in pods or percent.
    #[schemars(range(min = 1, max = 100_000))]
    pub value: u32,
    /// The period in seconds.
    #[schemars(range(min = 1, max = 1800))]
    pub period_seconds: u32,
}

/// The unit of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScalingRuleKind {
    /// A number of pods.
    Pods,
    /// Percentage of the pods at the beginning of the period.
    Percent,
}

/// Bounds of one container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerConstraints {
    /// Name of the container, or `*` for all others.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Whether the autoscaler controls its size.
    #[serde(default)]
    pub mode: ContainerMode,
    /// Bounds of its requests.
    #[serde(default)]
    pub requests: RequestBounds,
}

/// Whether the autoscaler controls the size of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContainerMode {
    /// It does.
    #[default]
    Auto,
    /// The container keeps the size of its template.
    Off,
}

/// Bounds of requests. A limit in the pod's template keeps its ratio to the request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestBounds {
    /// Minimum of `cpu` and `memory`.
    #[serde(default)]
    pub min_allowed: ResourceAmounts,
    /// Maximum of `cpu` and `memory`.
    #[serde(default)]
    pub max_allowed: ResourceAmounts,
}

/// Amounts of CPU and memory.
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

/// A recommender. `policyFile` is only for `policy` and `aware`, `external` only for `external`, and
/// `aware` only for `aware`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecommenderRef {
    /// `joint` (the default), `hpa+vpa` (both of Kubernetes' autoscalers), `policy` (a policy file of
    /// this project), `external` (your own learner, over gRPC) or `aware` (`hpa+vpa` acts and teaches a
    /// policy, which acts once it is proven).
    pub name: RecommenderName,
    /// The policy file of the recommender `policy`, or `aware`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_file: Option<PolicyFileRef>,
    /// Settings of the recommender `external`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalRef>,
    /// Settings of the recommender `aware`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aware: Option<LearningSpec>,
}

/// Recommenders by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RecommenderName {
    /// One decision for both dimensions.
    #[default]
    #[serde(rename = "joint")]
    Joint,
    /// Kubernetes' two autoscalers, independent of each other.
    #[serde(rename = "hpa+vpa")]
    HpaVpa,
    /// A policy file of this project.
    #[serde(rename = "policy")]
    Policy,
    /// Your own learner, over gRPC.
    #[serde(rename = "external")]
    External,
    /// Kubernetes' two autoscalers act and teach a policy, which acts once it is proven.
    #[serde(rename = "aware")]
    Aware,
}

/// A policy file in a ConfigMap of the same namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyFileRef {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub config_map: String,
    /// Key of its binary data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// An external recommender: a learner that connects to the operator and uses the workload as an
/// environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalRef {
    /// Its actions: `Steps` (one step in one dimension, as in `faas/function-v2`) or `Allocation`
    /// (number of pods, and cores and GiB of each).
    #[serde(default)]
    pub actions: LearnerActions,
    /// Time limit of its answer; after that `joint` recommends instead.
    #[serde(default = "ExternalRef::default_timeout")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub timeout: String,
}

/// The actions of a learner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LearnerActions {
    /// One step in one dimension.
    #[default]
    Steps,
    /// Number of pods, and cores and GiB of each.
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
