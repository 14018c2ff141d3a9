//! What is known of a workload: numbers with the time and the place they come from, and
//! whether they may be believed.

mod reading;
mod trust;

pub use reading::{Problem, Reading, Source};
pub use trust::{Trust, TrustConfig, TrustMemory, Verdict};
