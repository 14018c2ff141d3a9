//! What a recommender remembers, kept in the cluster so that a restart loses nothing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spec::ScaleTargetRef;

/// What the recommender of the object of the same name remembers. Not for people to write.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "homeostat.dev",
    version = "v1alpha1",
    kind = "MultidimPodAutoscalerCheckpoint",
    plural = "multidimpodautoscalercheckpoints",
    shortname = "mpacheckpoint",
    namespaced,
    doc = "What the recommender of the autoscaler of the same name remembers. Not for people to write.",
    printcolumn(name = "Taken", type_ = "date", json_path = ".spec.takenAt")
)]
#[serde(rename_all = "camelCase")]
pub struct MultidimPodAutoscalerCheckpointSpec {
    /// When it was taken.
    pub taken_at: Time,
    /// Who recommended; another recommender does not read it.
    pub recommender: String,
    /// Of which workload it is; that of another one is not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_target_ref: Option<ScaleTargetRef>,
    /// Named arrays, as JSON.
    #[schemars(length(max = 1_000_000))]
    pub memory: String,
}
