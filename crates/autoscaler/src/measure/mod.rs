//! Metrics with their source and age, and how far they can be trusted.

mod pod_use;
mod promql;
mod reading;
mod sudden_zero;
mod trust;

pub use pod_use::{PodMetricsList, PodUse};
pub use promql::{Unlimited, limited};
pub use reading::{Problem, Reading, Source};
pub use sudden_zero::SuddenZero;
pub use trust::{Problems, TrustConfig, Verdict};
