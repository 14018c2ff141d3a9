//! What the controllers write: what is, what should be, and why. The object is the only
//! channel between them, so whatever one controller needs of another stands here.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spec::ResourceAmounts;

/// State and recommendations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MultidimPodAutoscalerStatus {
    /// Generation of the spec that this status is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What the columns of `kubectl get mpa` show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// When the recommendation was made; an old one is not carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended_at: Option<Time>,
    /// Labels of the pods, as a selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Pods that there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<u32>,
    /// Pods that there should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<u32>,
    /// When the number or the size was changed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    /// Sizes that containers should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<Recommendation>,
    /// What Kubernetes' two autoscalers would do, each by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternatives: Option<Alternatives>,
    /// What was measured, where and when.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub current_metrics: Vec<MeasuredMetric>,
    /// The last decisions that changed something, and the last one of all; the latest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionRecord>,
    /// What the updater is doing.
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

/// Columns for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Such as `6->4`.
    pub replicas: String,
    /// Such as `500m->320m`, of a pod.
    pub cpu: String,
    /// Such as `512Mi->384Mi`, of a pod.
    pub memory: String,
}

/// Sizes that containers should have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// Of each container.
    pub container_recommendations: Vec<ContainerRecommendation>,
}

/// The size that a container should have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecommendation {
    /// Name of the container.
    pub container_name: String,
    /// What it should request.
    pub target: ResourceAmounts,
    /// Requests below are changed.
    pub lower_bound: ResourceAmounts,
    /// Requests above are changed.
    pub upper_bound: ResourceAmounts,
    /// What it would be without constraints.
    pub uncapped_target: ResourceAmounts,
}

/// What Kubernetes' two autoscalers would do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alternatives {
    /// Pods that the horizontal autoscaler would ask for; none if it could not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa_replicas: Option<u32>,
    /// What the vertical autoscaler would give a pod.
    pub vpa_target: ResourceAmounts,
    /// Why, in words.
    pub reasons: Vec<String>,
}

/// One thing that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredMetric {
    /// What it is, such as `cpu`, `latency` or a query's name.
    pub name: String,
    /// Its value with its unit, as people read it; none if it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where it comes from.
    pub source: String,
    /// When it was measured, by its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<Time>,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRecord {
    /// When.
    pub at: Time,
    /// Who recommended.
    pub recommender: String,
    /// What there was.
    pub from: PodAllocation,
    /// What was recommended.
    pub proposed: PodAllocation,
    /// What the guardrails left of it.
    pub applied: PodAllocation,
    /// Why, in words: the recommender's reasons first, then each guardrail's.
    pub reasons: Vec<String>,
}

/// Pods and the size of each.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodAllocation {
    /// Pods.
    pub replicas: u32,
    /// CPU of a pod.
    pub cpu: Quantity,
    /// Memory of a pod.
    pub memory: Quantity,
}

/// What the updater is doing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    /// Pods that have the recommended size.
    pub updated: u32,
    /// Pods that do not have it yet.
    pub outdated: u32,
    /// When the canaries were sized, in mode `Canary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_since: Option<Time>,
    /// Whether changes are carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acting: Option<Acting>,
    /// Times of the evictions of the last hour.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evictions: Vec<Time>,
}

/// Whether changes are carried out, and why or why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acting {
    /// Whether they are.
    pub is_acting: bool,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}
