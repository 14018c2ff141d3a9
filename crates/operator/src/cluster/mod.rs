//! The cluster as the controllers see it: what its server can do, workloads by their scale
//! subresource, and pods as far as anybody here needs them.

mod capabilities;
mod limit_ranges;
mod pod_cache;
mod pods;
mod selector;
mod targets;
mod workloads;

pub use capabilities::Capabilities;
pub use limit_ranges::{Confines, LimitRanges};
pub use pod_cache::PodCache;
pub use pods::{
    ContainerRecord, PodRecord, ResizeState, SIZED_ANNOTATION, container_record, record,
};
pub use selector::{SelectorError, read_selector, selects};
pub use targets::{Scaled, TargetError, Targets};
pub use workloads::{
    HpaBounds, Workload, horizontal_autoscalers, pods, pods_of_workload, workloads,
};
