//! Training runs: learners and environments meet here, round by round, with metrics,
//! checkpoints and policies on disk; evaluation of finished policies; learning curves.
//!
//! Prints nothing: the caller shows progress through [`Watcher`].
#![forbid(unsafe_code)]

mod curves;
mod episode_stats;
mod evaluate;
mod evaluate_together;
mod metrics;
mod provenance;
mod separate_envs;
mod shared_envs;
pub mod team;
mod tensorboard;
mod trainer;
mod training;

pub use curves::{Curve, draw_curves, read_curves};
pub use episode_stats::{AgentRound, TimeSplit};
pub use evaluate::{EpisodeWatch, Evaluation, EvaluationConfig, evaluate, evaluate_watched};
pub use metrics::{ExtraWriters, RoundTiming};
pub use trainer::Trainer;
pub use training::{Progress, Service, Silent, Training, TrainingSummary, Watcher};
