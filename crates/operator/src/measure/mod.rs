//! Reads metrics of workloads over HTTP: from Prometheus and from the metrics API.

mod pod_metrics;
mod prometheus;
mod query_backoff;

pub use pod_metrics::pod_metrics;
pub use prometheus::{AddressError, LabelledSeries, Prometheus, PrometheusAddress};
