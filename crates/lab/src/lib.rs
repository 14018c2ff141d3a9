//! What every job of the workbench shares: settings, the list of environments, run
//! directories, checkpoints, finished policies, statistics, thresholds and errors.
//!
//! Layer 4: reads and writes files and reads the clock, but prints nothing: the caller shows
//! progress.
#![forbid(unsafe_code)]

mod archive;
mod candidates;
mod checkpoint;
mod config;
mod env_factory;
mod environments;
mod error;
mod former_percentages;
mod packed_file;
mod run_directory;
mod statistics;
mod threshold;

pub use archive::read_archive;
pub use candidates::{
    Candidate, env_factory_of, load_candidate, load_candidates, places_that_serve,
};
pub use checkpoint::Checkpoint;
pub use config::{
    Assignment, EnvironmentVariable, RunConfig, Setting, Settings, SettingsFile, Source,
    TOKEN_VARIABLE, TeamMethod, UserLayers, nearest,
};
pub use env_factory::EnvFactory;
pub use environments::Environments;
pub use error::{Error, Result};
pub use former_percentages::{
    FormerPercentage, with_former_percentages, without_former_percentages,
};
pub use packed_file::{FileProgress, read_packed};
pub use run_directory::{FoundCheckpoint, RunDirectory, file_error, write_atomically};
pub use statistics::{Summary, student_t};
pub use threshold::Threshold;
