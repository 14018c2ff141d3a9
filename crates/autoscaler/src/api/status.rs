//! The status of an object: the current state, the recommendation, and the reasons. It is the only
//! channel between the controllers, so it contains everything that one needs from another.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spec::ResourceAmounts;

/// State and recommendations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MultidimPodAutoscalerStatus {
    /// Generation of the spec that this status belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The columns of `kubectl get mpa`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// When the recommendation was made; a stale one is not applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended_at: Option<Time>,
    /// Label selector of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The current number of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<u32>,
    /// The recommended number of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<u32>,
    /// When the number of pods was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    /// The recommended sizes of containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<Recommendation>,
    /// What HPA and VPA would do, each by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternatives: Option<Alternatives>,
    /// The life cycle of its learned policy, with the recommender `aware`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<LearningStatus>,
    /// The measured metrics.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub current_metrics: Vec<MeasuredMetric>,
    /// The latest decision, and the ones before it that changed something; the latest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionRecord>,
    /// The state of the updater.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// Conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
}

/// The columns of `kubectl get mpa`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Number of pods, such as `6->4`.
    pub replicas: String,
    /// CPU of a pod, such as `500m->320m`.
    pub cpu: String,
    /// Memory of a pod, such as `512Mi->384Mi`.
    pub memory: String,
}

/// The recommended sizes of containers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// One for each container.
    pub container_recommendations: Vec<ContainerRecommendation>,
}

/// The recommended size of a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecommendation {
    /// Name of the container.
    pub container_name: String,
    /// The recommended requests.
    pub target: ResourceAmounts,
    /// Lower requests are changed.
    pub lower_bound: ResourceAmounts,
    /// Higher requests are changed.
    pub upper_bound: ResourceAmounts,
    /// The recommendation without constraints.
    pub uncapped_target: ResourceAmounts,
}

/// What HPA and VPA would do, each by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alternatives {
    /// The number of pods of HPA; none if it has no metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa_replicas: Option<u32>,
    /// The size of a pod of VPA.
    pub vpa_target: ResourceAmounts,
    /// What the learned policy would do that does not act, before guards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PodAllocation>,
    /// The reasons.
    pub reasons: Vec<String>,
}

/// The life cycle of a learned policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearningStatus {
    /// The stage: `Initialised`, `Offline` or `Serving`.
    pub stage: String,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Why the stage before ended.
    pub reason: String,
    /// What this stage waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// Who decides: `hpa+vpa` or `policy`.
    pub actor: String,
    /// Mean and standard deviation of the rewards of the latest episodes of this stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent_reward: Option<String>,
    /// The latest evaluation of a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<EvaluationStatus>,
}

/// What off-policy evaluation found of a policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluationStatus {
    /// The policy file and its version.
    pub policy: String,
    /// Lower bound of its value.
    pub lower_bound: String,
    /// The value of `hpa+vpa`.
    pub fallback: String,
    /// How far the lower bound may be below that.
    pub margin: String,
    /// Whether the policy may serve.
    pub is_admitted: bool,
}

/// A measured metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredMetric {
    /// Its name, such as `CPU per pod`, `latency` or `query 1`.
    pub name: String,
    /// Its value with its unit; none if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its source.
    pub source: String,
    /// When it was measured, by the clock of its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<Time>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRecord {
    /// When it was made.
    pub at: Time,
    /// The recommender.
    pub recommender: String,
    /// The allocation before.
    pub from: PodAllocation,
    /// The recommender's proposal.
    pub proposed: PodAllocation,
    /// The proposal after the guards.
    pub applied: PodAllocation,
    /// The reasons: first those of the recommender, then those of the guards.
    pub reasons: Vec<String>,
}

/// The number of pods and the size of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodAllocation {
    /// Number of pods.
    pub replicas: u32,
    /// CPU of a pod.
    pub cpu: Quantity,
    /// Memory of a pod.
    pub memory: Quantity,
}

/// The state of the updater.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    /// Pods that have the recommended size.
    pub updated: u32,
    /// Pods that do not have it yet.
    pub outdated: u32,
    /// Since when the canaries have had the recommended size, in mode `Canary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_since: Option<Time>,
    /// Whether the recommendation is applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acting: Option<Acting>,
    /// Times of the evictions in the last hour.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evictions: Vec<Time>,
}

/// Whether the recommendation is applied, and why or why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acting {
    /// Whether it is applied.
    pub is_acting: bool,
    /// The reason, in one word.
    pub reason: String,
    /// The reason, in a sentence.
    pub message: String,
}
