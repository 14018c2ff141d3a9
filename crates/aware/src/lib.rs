//! AWARE (dissertation, chapter 5): the life cycle of a learned autoscaling policy.
//!
//! Layer 3: no I/O, no clock. [`Lifecycle`] is Alg. 5.1 as a typed state machine: it is told the
//! reward of every episode and the evaluation of every new policy, and answers who acts. It adds to
//! the printed algorithm a gate (no policy acts unless off-policy evaluation admits it), a mode that
//! never explores, and the reason why a stage does not end.
//!
//! ```
//! use homeostat_aware::{Actor, Cause, Lifecycle, Profile, Stage, Verdict};
//!
//! # fn main() -> homeostat_aware::Result<()> {
//! let mut lifecycle = Lifecycle::new(Profile { episodes: 2, ..Profile::default() })?;
//! assert_eq!(lifecycle.actor(), Actor::Fallback);
//!
//! // HPA and VPA act, and their decisions train a policy; evaluation admits it.
//! lifecycle.evaluated(Verdict { policy_low: 0.81, fallback: 0.80 });
//! assert_eq!(lifecycle.episode(0.80)?.expect("a stage begins").to, Stage::Offline);
//! let change = lifecycle.episode(0.80)?.expect("two episodes were asked for");
//! assert_eq!((change.to, lifecycle.actor()), (Stage::Serving, Actor::Policy));
//!
//! // The workload changes: the fallback takes over at once.
//! lifecycle.episode(0.2)?;
//! let change = lifecycle.episode(0.2)?.expect("the mean is below its threshold");
//! assert!(matches!(change.cause, Cause::RewardTooLow { .. }));
//! assert_eq!((change.to, lifecycle.actor()), (Stage::Offline, Actor::Fallback));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod agent;
mod episode;
mod lifecycle;
mod profile;
mod stage;

pub use agent::{Agent, Observed};
pub use episode::{Behaviour, Decided, Episode, EpisodeConfig, Episodes};
pub use lifecycle::{Cause, Lifecycle, StageChange, Verdict, Waiting};
pub use profile::{Error, Exploration, Profile, Result};
pub use stage::{Actor, Stage};
