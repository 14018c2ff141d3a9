//! The workbench: settings, training runs on disk, evaluation, learning curves and
//! benchmarks. Here worlds and learners meet; below this layer they never do.
//!
//! Layer 4: reads and writes files and looks at the clock. It prints nothing:
//! whoever calls it shows progress through [`Watcher`].
#![forbid(unsafe_code)]

pub mod bench;
mod config;
mod curves;
mod error;
mod evaluate;
mod metrics;
mod run_folder;
mod statistics;
mod tensorboard;
mod threshold;
mod trainer;
mod training;

pub use config::{DEFAULT_TOML, RunConfig, Settings, Source, UserLayers, nearest};
pub use curves::{Curve, draw_curves, read_curves};
pub use error::{Error, Result};
pub use evaluate::{Evaluation, EvaluationConfig, evaluate};
pub use metrics::{ExtraWriters, RoundTiming};
pub use run_folder::{FoundCheckpoint, RunFolder, write_atomically};
pub use statistics::Summary;
pub use threshold::Threshold;
pub use trainer::{AgentRound, Checkpoint, TimeSplit, Trainer};
pub use training::{Progress, Training, TrainingSummary, Watcher};
