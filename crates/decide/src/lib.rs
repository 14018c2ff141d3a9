//! From an observation to a decision: the one path that training, the simulators, `replay` and
//! the operator share.
//!
//! A [`Policy`] proposes a setting, [`Guards`] limit the proposal, the [`Decision`] keeps both
//! with typed reasons, and a [`Plant`] applies it. All of it is generic over a control [`Domain`]:
//! what is observed, what can be set, and what bounds it. [`PodScaling`] is the first domain.
//! [`decide()`] has a first example.
//!
//! Heuristic policies of pod scaling: Kubernetes' horizontal and vertical pod autoscalers (and
//! both at once), Knative's, ENSURE, AIMD, and a fixed allocation. A learned policy reads
//! [`Features`] ([`StageFeatures`] in a chain of functions) and chooses a [`ScalingAction`], or
//! uses the features and actions of [`SetPoints`]. Targets that share machines form [`Teams`], and
//! a policy may read the other members beside its own target.
//!
//! Networks and learners are in `homeostat-rl`, and this crate applies nothing itself. Layer 1: no
//! I/O, no wall clock, no randomness. The state of policies and guards can be saved and restored.
#![forbid(unsafe_code)]

mod allocation_bounds;
mod allocation_target;
mod amount;
mod container_interface;
mod container_scaling;
mod cpu_frequency;
mod decide;
mod decision;
mod domain;
mod error;
mod features;
mod gpu_clock;
mod guards;
mod measured_plant;
mod observation;
mod plant;
mod pod_interface;
mod pod_scaling;
mod policies;
mod policy;
mod policy_config;
mod ratios;
mod reason;
mod replica_key;
mod reward;
mod scaling_action;
mod sending_rate;
mod set_points;
mod simulated_plant;
mod snapshot_records;
mod staffing;
mod stage_features;
mod team;
mod timed_counts;
mod virtual_agent;

pub use allocation_bounds::AllocationBounds;
pub use allocation_target::AllocationTarget;
pub use amount::{Amount, Dimension};
pub use container_interface::{ContainerFeatures, LimitAction};
pub use container_scaling::{
    ContainerBounds, ContainerLimits, ContainerObservation, ContainerProposal, ContainerReason,
    ContainerResource, ContainerScaling,
};
pub use cpu_frequency::{
    CpuFrequency, CpuObservation, FrequencyBounds, FrequencyProposal, FrequencyReason, Kilohertz,
};
pub use decide::decide;
pub use decision::Decision;
pub use domain::{Domain, MetricsStatus, Observe, Propose, Setting, SettingBounds, SloStatus};
pub use error::{Error, Result};
pub use features::Features;
pub use gpu_clock::{
    ClockBounds, ClockProposal, ClockReason, GpuClock, GpuObservation, Megahertz, ModelLatency,
};
pub use guards::{
    Admission, AutoRollbackConfig, CanaryConfig, CoolDownConfig, Guard, GuardContext, GuardReason,
    Guards, GuardsConfig, MetricsTrust, Pause, RateLimitConfig, Share, StepLimit, StepSize,
};
pub use measured_plant::{Figure, MeasuredPlant, MeasuredSource, SimulatedSystem};
pub use observation::{Allocation, Observation, ReplicaSample};
pub use plant::Plant;
pub use pod_interface::PodInterface;
pub use pod_scaling::PodScaling;
pub use policies::{
    Aimd, AimdConfig, BurstResponseConfig, DecayingCheckpoint, DecayingHistogram, Ensure,
    EnsureConfig, Fixed, FixedConfig, HistogramBuckets, HistogramCheckpoint, Hpa, HpaConfig,
    HpaMetric, HpaVpa, HpaVpaConfig, Joint, JointConfig, Kpa, KpaConfig, LimitAimd,
    LimitAimdConfig, PodRule, ScalingBehavior, ScalingPolicy, ScalingRules, ScalingStep,
    SelectPolicy, ShortFirst, ShortFirstConfig, SloKind, TargetUtilizationConfig, UsageHistogram,
    Vpa, VpaCheckpoint, VpaConfig,
};
pub use policy::{Policy, PreparedProposal, Proposal};
pub use policy_config::PolicyConfig;
pub use ratios::Ratios;
pub use reason::Reason;
pub use reward::RewardPreset;
pub use scaling_action::ScalingAction;
pub use sending_rate::{BitsPerSecond, PathObservation, RateProposal, RateReason, SendingRate};
pub use set_points::{ServiceTime, SetPoint, SetPoints};
pub use simulated_plant::{
    PlantSimulator, PlantSource, ScaledBy, SimulatedPlant, TargetTotals, TargetWindow,
};
pub use stage_features::{EndToEnd, StageFeatures};
pub use team::{MemberState, TeamMember, TeamSnapshot, TeamState, Teams};
pub use virtual_agent::{Contribution, GlobalState, VirtualAgent};
