//! The platform against what must hold of any platform: nothing is lost, knobs act, memory
//! and cores are finite, and time can be stopped and resumed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod chain_environment;
mod chains;
mod conservation;
mod environments;
mod knobs;
mod setup;
mod task_type;
