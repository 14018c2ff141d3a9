//! Replays the recorded history of a workload through the engine of the recommender.
//!
//! A [`Recording`] has the pods of a workload and their usage, from Prometheus or the metrics API; a
//! [`Player`] replays it, and a [`Tally`] sums up its cost. The replay is open loop: the recorded work
//! is divided among the pods that there would have been, and the latency that they would have had is
//! not known.

mod advice;
mod player;
mod recording;
mod replay;
mod tally;
mod workload_spec;

pub use advice::{Advice, ContainerAdvice, Known, advise};
pub use player::{Follow, Played, Player, Stage, played_recommender};
#[cfg(test)]
pub(crate) use recording::recording_of;
pub use recording::{Recording, Sample};
pub use replay::{Change, Replay, Substituted, WorkloadHistory, replay};
pub use tally::{SloState, Tally};
pub use workload_spec::{BoundsSpec, SloSpec, WorkloadSpec};
