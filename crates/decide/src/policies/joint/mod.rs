//! Both dimensions in one decision: how large a replica should be, then how many of that size.
//!
//! Kubernetes' two autoscalers fight because both read the same use ([`HpaVpa`](crate::HpaVpa)
//! shows it). Here each dimension has its own question. The number follows the load, as the
//! horizontal autoscaler computes it, for the smaller of the size that is there and the one that
//! is about to be. The size follows only where the number has come to its end: at the fewest
//! replicas it shrinks with the history of use, at the most it grows (`size`). Memory follows its
//! own history; more replicas do not make each need less of it.
//!
//! The utilisation target is learned from the SLO (`target_utilization`): it falls when replicas at
//! or below it are slow, and rises slowly while replicas at it are fast. While the SLO is violated
//! and latency rises further, the number follows latency, up to double (`burst_response`), since
//! utilisation would show the burst too late. Nothing is scaled down while the SLO is violated.

mod burst_response;
mod policy;
mod size;
mod step_down;
mod target_utilization;

pub use burst_response::BurstResponseConfig;
pub use policy::{Joint, JointConfig, SloKind};
pub use target_utilization::TargetUtilizationConfig;
