//! Kubernetes' horizontal pod autoscaler: how many replicas the metrics ask for
//! (`replica_calculation`), which replicas may be counted (`readiness`), and how fast the
//! number may follow (`behavior`).

mod behavior;
mod metric;
mod policy;
mod readiness;
mod replica_calculation;

pub use behavior::{ScalingBehavior, ScalingPolicy, ScalingRules, ScalingStep, SelectPolicy};
pub use metric::HpaMetric;
pub use policy::{Hpa, HpaConfig};
