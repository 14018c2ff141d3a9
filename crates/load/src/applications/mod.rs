//! Generated applications and where their requests come from (dissertation, Sections 5.2.3 and 5.5.1): sixteen segments,
//! a thousand combinations of them, the scenarios in which a workload changes, and the rhythms of Azure functions.
//! Simulators of clusters and of nodes run the same applications.

mod application;
mod change;
mod pool;
mod segment;
mod source;

pub use application::Application;
pub use change::Change;
pub use pool::{ApplicationPool, Part};
pub use segment::{Cost, Need, Payload, SEGMENTS, Segment};
pub use source::{Half, Source};
