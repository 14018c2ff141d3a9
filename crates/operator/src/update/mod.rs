//! How recommended sizes reach running pods: which pods are next (`next_pods`, no cluster
//! needed), and how it is done.

mod apply;
mod next_pods;

pub use apply::{ANSWERED_WITHIN, Applied, apply, may_be_done, resources, wanted_sizes};
pub use next_pods::{
    Blocked, NextPods, PodStep, PodView, Rollout, Sizes, TOLERANCE, WantedSize, WantedSizes, fits,
    next_pods, sizes_new_pods, tolerated,
};
