//! Both dimensions in one decision: how large a replica should be, then how many of that size.
//!
//! Kubernetes' two autoscalers fight because both read the same use ([`HpaVpa`](crate::HpaVpa)
//! shows it). Here each dimension has its own question. The number follows the load, as the
//! horizontal autoscaler computes it, for the smaller of the size that is there and the one that
//! is about to be. The size follows only where the number has come to its end: at the fewest
//! replicas it shrinks with the history of use, at the most it grows (`size`). Memory follows its
//! own history; more replicas do not make each need less of it.
//!
//! How full replicas may be is learnt from the objective instead of guessed (`fill`): the
//! level is cut when replicas that are no fuller are slow, and rises slowly while those that
//! are as full are fast. While the objective breaks and gets worse, the number follows latency
//! up to double (`relief`), since use would tell too late. What is too slow is not made smaller.

mod burst_response;
mod policy;
mod size;
mod step_down;
mod target_utilization;

pub use burst_response::BurstResponseConfig;
pub use policy::{Joint, JointConfig, ObjectiveKind};
pub use target_utilization::TargetUtilizationConfig;
