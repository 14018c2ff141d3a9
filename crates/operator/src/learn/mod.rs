//! Recommenders that learn: policy files, and learners over gRPC that act on a workload as they
//! would in a simulated environment.
//!
//! Their answers pass the same guards as every other recommendation. `joint` recommends in place of
//! a learner that does not answer, or whose answer is invalid.

mod learners;
mod listen;
mod policy_file;
mod session;

pub use learners::{Learners, NotServed};
pub use listen::{LearnerPort, ListenError, serve_learners};
pub use policy_file::{PolicyFile, PolicyFileError};
pub use session::LearnerSession;
