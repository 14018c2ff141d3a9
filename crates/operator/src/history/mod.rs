//! What a workload did in the past, played through the engine of an object that was not there.
//!
//! A [`Recording`] is made of pods as the cluster knows them and of their use as Prometheus or
//! the metrics API remember it; a [`Player`] plays it and a [`Tally`] says what that would have
//! cost. It is open loop: the work that was done is taken as it was and spread over the pods
//! that would have been there, and nobody knows the latency that this would have had.

mod advice;
mod fetch;
mod player;
mod queries;
mod recording;
mod replay;
mod tally;
mod wishes;

pub use advice::{Advice, ContainerAdvice, Known, advise};
pub use fetch::{FetchError, Past, fetch};
pub use player::{Follow, Played, Player, Stage};
pub use queries::Queries;
#[cfg(test)]
pub(crate) use recording::recording_of;
pub use recording::{Moment, Recording};
pub use replay::{Change, Replay, replay};
pub use tally::{Objective, Tally};
pub use wishes::{BoundWishes, GoalWishes, Wishes};
