//! Kubernetes' vertical pod autoscaler: decaying histograms of what replicas use
//! (`histogram`, `decaying_histogram`, `usage_history`, `memory_peaks`), a recommended range
//! (`estimator`), and whether a change is worth a restart (`updater`).

mod buckets;
mod decaying_histogram;
mod estimator;
mod histogram;
mod memory_peaks;
mod policy;
mod updater;
mod usage_history;

pub use buckets::HistogramBuckets;
pub use decaying_histogram::{DecayingCheckpoint, DecayingHistogram};
pub(super) use estimator::Range;
pub use histogram::{HistogramCheckpoint, UsageHistogram};
pub use policy::{Vpa, VpaConfig};
pub use usage_history::VpaCheckpoint;
