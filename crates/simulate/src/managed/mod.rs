//! Policies under the life cycle of AWARE (dissertation, Sections 5.3.3 and 5.3.4), in simulation: a fallback
//! acts and its decisions train an agent, which acts once off-policy evaluation admits it, trains on, serves, and
//! is retrained when its rewards fall. [`Lifecycle`](homeostat_aware::Lifecycle) decides who acts; this module does
//! the rest.

mod agent;
mod config;
mod episodes;
mod policy;

pub use config::{LearnerConfig, ManagedConfig};
pub use policy::{ManagedPolicy, StageEntry};
