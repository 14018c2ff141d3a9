//! Metrics of a workload with their time and source, and whether they can be trusted.

mod pod_metrics;
mod prometheus;
mod query_backoff;
mod reading;
mod sudden_zero;
mod trust;

pub use pod_metrics::{PodUse, pod_metrics};
pub use prometheus::{AddressError, LabelledSeries, Prometheus, PrometheusAddress};
pub use reading::{Problem, Reading, Source};
pub use sudden_zero::SuddenZero;
pub use trust::{Problems, TrustConfig, Verdict};
