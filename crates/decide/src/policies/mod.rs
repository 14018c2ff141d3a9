//! The policies that ship with Homeostat, one file or folder each.

mod aimd;
mod ensure;
mod fixed;
mod hpa;
mod hpa_vpa;
mod joint;
mod kpa;
mod limit_aimd;
mod pod_rule;
mod short_first;
mod vpa;

pub use aimd::{Aimd, AimdConfig};
pub use ensure::{Ensure, EnsureConfig};
pub use fixed::{Fixed, FixedConfig};
pub use hpa::{
    Hpa, HpaConfig, HpaMetric, ScalingBehavior, ScalingPolicy, ScalingRules, ScalingStep,
    SelectPolicy,
};
pub use hpa_vpa::{HpaVpa, HpaVpaConfig};
pub use joint::{BurstResponseConfig, Joint, JointConfig, SloKind, TargetUtilizationConfig};
pub use kpa::{Kpa, KpaConfig};
pub use limit_aimd::{LimitAimd, LimitAimdConfig};
pub use pod_rule::PodRule;
pub use short_first::{ShortFirst, ShortFirstConfig};
pub use vpa::{
    DecayingCheckpoint, DecayingHistogram, HistogramBuckets, HistogramCheckpoint, UsageHistogram,
    Vpa, VpaCheckpoint, VpaConfig,
};
