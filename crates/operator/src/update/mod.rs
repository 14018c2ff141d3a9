//! Resizes or evicts the pods that the autoscaler chose.

mod apply;

pub use apply::{Applied, MAX_STEP_TIME, apply, may_be_done};
