//! The cluster as the controllers see it: capabilities of the API server, workloads by their scale
//! subresource, and pods.

mod capabilities;
mod pod_cache;
mod targets;
mod workloads;

pub use capabilities::Capabilities;
pub use pod_cache::PodCache;
pub use targets::{ReplicaChange, TargetError, Targets};
pub use workloads::{horizontal_autoscalers, pods, workloads};
