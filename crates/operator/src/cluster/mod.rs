//! The cluster as the controllers see it: what its server can do, workloads by their scale
//! subresource, and pods as far as anybody here needs them.

mod capabilities;
mod pods;
mod targets;

pub use capabilities::Capabilities;
pub use pods::{ContainerRecord, PodRecord, keep_what_is_needed, record};
pub use targets::{Scaled, TargetError, Targets};
