//! Metrics with their source and age, and how far they can be trusted.

mod pod_use;
mod reading;
mod sudden_zero;
mod trust;

pub use pod_use::{PodMetricsList, PodUse};
pub use reading::{Problem, Reading, Source};
pub use sudden_zero::SuddenZero;
pub use trust::{Problems, TrustConfig, Verdict};
