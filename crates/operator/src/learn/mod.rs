//! Recommenders that learn: policy files, and learners over gRPC that act in a workload as they
//! would in a simulated world.
//!
//! Whatever they answer goes through the same guardrails as every other recommendation. While
//! one is silent or makes no sense, `joint` recommends in its place.

mod advice;
mod learners;
mod listen;
mod policy_file;
mod session;

pub use advice::{Advice, LastAction, propose};
pub use learners::{Learners, NoSession};
pub use listen::{LearnerPort, ListenError, serve_learners};
pub use policy_file::{PolicyFile, PolicyFileError, ServedPolicy};
pub use session::{LearnerSession, Transition};
