//! Brings running pods to their recommended sizes: `next_pods` chooses them without I/O, `apply`
//! resizes or evicts them.

mod apply;
mod next_pods;

pub use apply::{Applied, MAX_STEP_TIME, apply, may_be_done, resources, wanted_sizes};
pub use next_pods::{
    Blocked, NextPods, PodStep, PodView, Rollout, Sizes, TOLERANCE, WantedSize, WantedSizes, fits,
    next_pods, sizes_new_pods, tolerated,
};
