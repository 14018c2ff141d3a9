//! The custom resources of the operator, above all `MultidimPodAutoscaler`.
//!
//! Its shape follows the Kubernetes proposal AEP-5342 (target, policy, goals, constraints,
//! recommenders), with an SLO, a mode and limits of disruption added. The types here are what the API
//! server stores; [`Plan`] is the validated form that the controllers use. No field is ignored: a value
//! that the operator cannot honour is refused with a condition.

mod amounts;
mod change_limits;
mod checkpoint;
mod conditions;
mod learning_spec;
mod plan;
mod spec;
mod status;

pub use amounts::{cores, cpu_quantity, duration, memory_bytes, memory_quantity};
pub use change_limits::{ChangeLimits, CoolDownLimits, RateLimit};
pub use checkpoint::{MultidimPodAutoscalerCheckpoint, MultidimPodAutoscalerCheckpointSpec};
pub use conditions::{ConditionReason, ConditionType, event_reason};
pub use learning_spec::{LearningMode, LearningSpec};
pub use plan::{
    ChangePlan, ContainerPlan, Disruption, Goal, InFlightQuery, LearningPlan, LoadPlan, Plan,
    PlanError, Recommender, Window,
};
pub use spec::*;
pub use status::*;

/// The API group of the custom resources.
pub const GROUP: &str = "homeostat.dev";

/// Their API group and version.
pub const GROUP_VERSION: &str = "homeostat.dev/v1alpha1";
