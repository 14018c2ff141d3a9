//! The workbench: settings, training runs on disk, evaluation, learning curves and
//! benchmarks. Here worlds and learners meet; below this layer they never do.
//!
//! Layer 4: reads and writes files and looks at the clock. It prints nothing:
//! whoever calls it shows progress through [`Watcher`].
#![forbid(unsafe_code)]

pub mod bench;
pub mod calibrate;
mod candidates;
mod checkpoint;
pub mod compare;
mod config;
mod coordinated_worlds;
mod curves;
mod error;
mod evaluate;
mod evaluate_together;
mod ledger;
mod metrics;
mod report;
pub mod reproduce;
mod run_folder;
mod separate_worlds;
mod shared_lane;
mod shared_worlds;
pub mod simulate;
mod statistics;
pub mod team;
mod tensorboard;
mod threshold;
mod trace_file;
mod trace_report;
mod trainer;
mod training;
mod watched_team;
mod worlds;

pub use candidates::{load_candidate, load_candidates};
pub use checkpoint::Checkpoint;
pub use config::{
    DEFAULT_TOML, RunConfig, Settings, Source, TOKEN_VARIABLE, TeamMethod, UserLayers, nearest,
};
pub use curves::{Curve, draw_curves, read_curves};
pub use error::{Error, Result};
pub use evaluate::{Candidate, Evaluation, EvaluationConfig, evaluate};
pub use ledger::{AgentRound, TimeSplit};
pub use metrics::{ExtraWriters, RoundTiming};
pub use report::{write_finding, write_report};
pub use run_folder::{FoundCheckpoint, RunFolder, write_atomically};
pub use statistics::Summary;
pub use threshold::Threshold;
pub use trace_file::{FileProgress, read_trace};
pub use trace_report::{
    GeneratedTrace, TableSummary, fit_trace, inspect_trace, model_to_toml, read_model, write_trace,
};
pub use trainer::Trainer;
pub use training::{Progress, Training, TrainingSummary, Watcher};
pub use watched_team::{Glance, WatchedTeam};
pub use worlds::Worlds;
