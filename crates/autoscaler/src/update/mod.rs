//! Brings running pods to their recommended sizes: [`next_pods()`] chooses the pods that are resized
//! or evicted next, [`resources`] are the new requests and limits of a container.

mod blocked;
mod container_resources;
mod new_pods;
mod next_pods;
mod sizes;

pub use blocked::Blocked;
pub use container_resources::{resources, wanted_sizes};
pub use new_pods::sizes_new_pods;
pub use next_pods::{NextPods, PodStep, PodView, Rollout, next_pods};
pub use sizes::{Sizes, TOLERANCE, WantedSize, WantedSizes, fits, tolerated};
