//! The cluster as the controllers see it: capabilities of the API server, workloads by their scale
//! subresource, pods, and LimitRanges.

mod capabilities;
mod limit_ranges;
mod pod_cache;
mod pods;
mod selector;
mod targets;
mod workloads;

pub use capabilities::Capabilities;
pub use limit_ranges::{LimitRanges, ResourceLimits};
pub use pod_cache::PodCache;
pub use pods::{
    ContainerRecord, PodRecord, ResizeState, SIZED_ANNOTATION, container_record, record,
};
pub use selector::{SelectorError, read_selector, selects};
pub use targets::{ReplicaChange, Scaled, TargetError, Targets};
pub use workloads::{
    HpaBounds, Workload, horizontal_autoscalers, pods, pods_of_workload, workloads,
};
