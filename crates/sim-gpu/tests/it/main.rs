//! The serving simulation from outside.

#![expect(clippy::unwrap_used, reason = "a test panics on what cannot be made")]

mod clocks;
mod conservation;
mod energy;
mod environment;
mod queueing;
