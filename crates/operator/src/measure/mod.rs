//! What is known of a workload: numbers with the time and the place they come from, and
//! whether they may be believed.

mod pod_metrics;
mod prometheus;
mod reading;
mod rests;
mod sudden_zero;
mod trust;

pub use pod_metrics::{PodUse, pod_metrics};
pub use prometheus::{AddressError, LabelledSeries, Prometheus, PrometheusAddress};
pub use reading::{Problem, Reading, Source};
pub use sudden_zero::SuddenZero;
pub use trust::{Trust, TrustConfig, TrustMemory, Verdict};
