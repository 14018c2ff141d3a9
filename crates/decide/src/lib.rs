//! From an observation to a decision: the one path that the simulator, `replay` and the
//! operator share. A [`Policy`] proposes, [`Guardrails`] bound what it proposes, and the
//! [`Decision`] keeps both with the reasons in words.
//!
//! The policies here are the ones people run or publish: Kubernetes' horizontal and vertical
//! pod autoscalers (and both at once), Knative's, ENSURE, AIMD, and no scaling at all. A
//! learned policy reads [`Features`] ([`StageFeatures`] in a chain) and answers with a
//! [`ScalingAction`], or reads and answers with the features and actions of [`SetPoints`].
//!
//! Layer 1: no I/O, no clock, no randomness. What a policy remembers can be saved and
//! restored, after which it proposes the same.
#![forbid(unsafe_code)]

mod allocation_bounds;
mod amount;
mod decide;
mod decision;
mod error;
mod features;
mod guardrail_memory;
mod guardrails;
mod observation;
mod policies;
mod policy;
mod policy_config;
mod reason;
mod replica_key;
mod reward;
mod scaling_action;
mod set_points;
mod snapshot_records;
mod staffing;
mod stage_features;
mod timed_counts;

pub use allocation_bounds::AllocationBounds;
pub use amount::{Amount, Dimension};
pub use decide::decide;
pub use decision::Decision;
pub use error::{Error, Result};
pub use features::Features;
pub use guardrail_memory::GuardrailMemory;
pub use guardrails::{Guardrails, GuardrailsConfig, RateLimit, ReplicaStep, Step};
pub use observation::{Allocation, Observation, ReplicaSample};
pub use policies::{
    Aimd, AimdConfig, DecayingCheckpoint, DecayingHistogram, Ensure, EnsureConfig, FillConfig,
    Fixed, FixedConfig, HistogramBuckets, HistogramCheckpoint, Hpa, HpaConfig, HpaMetric, HpaVpa,
    HpaVpaConfig, Joint, JointConfig, Kpa, KpaConfig, ObjectiveKind, ReliefConfig, ScalingBehavior,
    ScalingPolicy, ScalingRules, ScalingStep, SelectPolicy, ShortFirst, ShortFirstConfig,
    UsageHistogram, Vpa, VpaCheckpoint, VpaConfig,
};
pub use policy::{Policy, Proposal};
pub use policy_config::PolicyConfig;
pub use reason::Reason;
pub use reward::RewardPreset;
pub use scaling_action::{Illegal, ScalingAction};
pub use set_points::{ServiceTime, SetPoint, SetPoints};
pub use stage_features::{EndToEnd, StageFeatures};
