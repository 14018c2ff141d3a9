//! Benchmarks that users repeat: what is timed, what is counted, and a checksum
//! that proves the work was done.

mod learn;

pub use learn::{LearnBench, LearnReport, UpdateTiming};
