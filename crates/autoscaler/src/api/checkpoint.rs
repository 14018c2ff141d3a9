//! The state of a recommender, stored in the cluster so that a restart loses no history.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spec::ScaleTargetRef;

/// The state of the recommender of the object of the same name. Only the operator writes it.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "homeostat.dev",
    version = "v1alpha1",
    kind = "MultidimPodAutoscalerCheckpoint",
    plural = "multidimpodautoscalercheckpoints",
    shortname = "mpacheckpoint",
    namespaced,
    doc = "The state of the recommender of the autoscaler of the same name. Only the operator writes it.",
    printcolumn(name = "Taken", type_ = "date", json_path = ".spec.takenAt")
)]
#[serde(rename_all = "camelCase")]
pub struct MultidimPodAutoscalerCheckpointSpec {
    /// When it was written.
    pub taken_at: Time,
    /// The recommender; another one does not read it.
    pub recommender: String,
    /// The workload; it is not used for another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_target_ref: Option<ScaleTargetRef>,
    /// The life cycle of its learned policy with the decisions of the open episode, in JSON; only with
    /// the recommender `aware`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 400_000))]
    pub learning: Option<String>,
    /// The state as named arrays, in JSON.
    #[schemars(length(max = 1_000_000))]
    pub memory: String,
}
