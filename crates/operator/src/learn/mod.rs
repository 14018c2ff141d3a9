//! Recommenders that learn: policy files, and learners over gRPC that act on a workload as they
//! would in a simulated environment.
//!
//! An object with the recommender `aware` has a [`LearningAgent`]: HPA and VPA act until a policy is proven,
//! and every decision is recorded into the [`Spool`].
//!
//! Their answers pass the same guards as every other recommendation. `joint` recommends in place of
//! a learner that does not answer, or whose answer is invalid (`hpa+vpa` with the recommender `aware`).

mod collector;
mod learners;
mod learning_agent;
mod listen;
mod policy_file;
mod session;
mod spool;

pub(crate) use collector::SENDER_DEADLINE;
pub use collector::{Collector, CollectorAddress, CollectorError, OfferedPolicy, send_episodes};
pub use learners::{Learners, NotServed};
pub use learning_agent::{Applied, FALLBACK, FoundPolicy, LearningAgent, News, Problem};
pub use listen::{LearnerPort, ListenError, serve_learners};
pub use policy_file::{PolicyFile, PolicyFileError};
pub use session::LearnerSession;
pub use spool::{Spool, SpoolStatus};
