//! Reads the recorded history of a workload from Prometheus.

mod fetch;
mod queries;

pub use fetch::{FetchError, Past, fetch};
pub use queries::Queries;
