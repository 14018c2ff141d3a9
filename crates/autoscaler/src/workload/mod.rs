//! A workload as the decision sees it: its scale, its pods in the few fields that count, and the
//! LimitRanges of its namespace.

mod limit_ranges;
mod pods;
mod selector;
mod target;

pub use limit_ranges::{LimitRanges, ResourceLimits};
pub use pods::{
    ContainerRecord, PodRecord, ResizeState, SIZED_ANNOTATION, container_record, record,
};
pub use selector::{SelectorError, read_selector, selects};
pub use target::{HpaBounds, Scaled, Workload, pods_of_workload};
