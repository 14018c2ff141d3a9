//! The object that people write and read: a `MultidimPodAutoscaler`.
//!
//! Its shape follows the Kubernetes proposal AEP-5342 (target, policy, goals, constraints,
//! recommenders), with an objective, a mode and limits of disruption added. The types here are
//! what the API server stores; [`Plan`] is what the controllers work with, checked as a whole.
//! No field is ignored: what a controller cannot honour is refused with a condition.

mod amounts;
mod checkpoint;
mod conditions;
mod definition;
mod plan;
mod spec;
mod status;

pub use amounts::{cores, cpu_quantity, duration, memory_bytes, memory_quantity};
pub use checkpoint::{MultidimPodAutoscalerCheckpoint, MultidimPodAutoscalerCheckpointSpec};
pub use conditions::{ConditionReason, ConditionType};
pub use definition::definitions;
pub use plan::{ContainerPlan, Disruption, Goal, Plan, PlanError, Recommender, Share, Window};
pub use spec::*;
pub use status::*;

/// The group of our objects.
pub const GROUP: &str = "homeostat.dev";

/// Their group and version, as objects write it.
pub const GROUP_VERSION: &str = "homeostat.dev/v1alpha1";
