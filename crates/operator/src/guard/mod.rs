//! What stands between a recommendation and a workload, beside bounds, steps and rates: the
//! pause that people set, the canary, and the breaker that takes back what hurt.

mod breaker;
mod canary;
mod pause;

pub use breaker::{Breaker, BreakerConfig, Broken, Look};
pub use canary::{Canary, CanaryStep};
pub use pause::{PAUSE_ANNOTATION, Pause, UnknownPause};
