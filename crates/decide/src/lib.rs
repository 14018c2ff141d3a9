//! From an observation to a decision: the one path that training, the simulators, `replay` and
//! the operator share. A [`Policy`] proposes, [`Guards`] limit what it proposes, the [`Decision`]
//! keeps both with the reasons, and a [`Plant`] carries it out. All of it is generic over a control
//! [`Domain`]: what is observed, what can be set, and what bounds it. [`PodScaling`] is the first.
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
mod domain;
mod error;
mod features;
mod guards;
mod observation;
mod plant;
mod pod_interface;
mod pod_scaling;
mod policies;
mod policy;
mod policy_config;
mod reason;
mod replica_key;
mod reward;
mod scaling_action;
mod set_points;
mod simulated_plant;
mod snapshot_records;
mod staffing;
mod stage_features;
mod timed_counts;

pub use allocation_bounds::AllocationBounds;
pub use amount::{Amount, Dimension};
pub use decide::decide;
pub use decision::Decision;
pub use domain::{Domain, MetricsStatus, Observe, Propose, Setting, SettingBounds, SloStatus};
pub use error::{Error, Result};
pub use features::Features;
pub use guards::{
    Admission, AutoRollbackConfig, CanaryConfig, CoolDownConfig, Guard, GuardReason, Guards,
    GuardsConfig, MetricsTrust, Pause, RateLimitConfig, Share, Situation, StepLimit, StepSize,
};
pub use observation::{Allocation, Observation, ReplicaSample};
pub use plant::Plant;
pub use pod_interface::{PodInterface, TEAM_SUFFIX};
pub use pod_scaling::PodScaling;
pub use policies::{
    Aimd, AimdConfig, BurstResponseConfig, DecayingCheckpoint, DecayingHistogram, Ensure,
    EnsureConfig, Fixed, FixedConfig, HistogramBuckets, HistogramCheckpoint, Hpa, HpaConfig,
    HpaMetric, HpaVpa, HpaVpaConfig, Joint, JointConfig, Kpa, KpaConfig, ObjectiveKind,
    ScalingBehavior, ScalingPolicy, ScalingRules, ScalingStep, SelectPolicy, ShortFirst,
    ShortFirstConfig, TargetUtilizationConfig, UsageHistogram, Vpa, VpaCheckpoint, VpaConfig,
};
pub use policy::{Policy, Prepared, Proposal};
pub use policy_config::PolicyConfig;
pub use reason::Reason;
pub use reward::RewardPreset;
pub use scaling_action::ScalingAction;
pub use set_points::{ServiceTime, SetPoint, SetPoints};
pub use simulated_plant::{
    PlantSimulator, PlantSource, ScaledBy, SimulatedPlant, TargetTotals, TargetWindow,
};
pub use stage_features::{EndToEnd, StageFeatures};
