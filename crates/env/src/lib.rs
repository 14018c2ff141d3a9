//! The contract between a world and whoever acts in it: spaces, steps, seeding,
//! several copies at once, several agents at once, and a checker that explains
//! what is wrong. Gymnasium and PettingZoo users will recognise every word.
//!
//! Layer 1: no I/O. Terminated (the task ended) and truncated (somebody stopped
//! watching) stay apart everywhere: a learner bootstraps through the second.
#![forbid(unsafe_code)]

mod action;
mod check;
mod check_multi_agent;
mod check_spec;
mod env;
mod episode;
mod error;
mod lanes;
mod multi_agent;
mod phase;
mod picture;
mod registry;
mod simulator;
mod space;
mod spec;
mod task;
mod task_type;
mod vec_env;
pub mod worlds;

pub use action::Action;
pub use check::check_env;
pub use check_multi_agent::check_multi_agent_env;
pub use check_spec::Finding;
pub use env::{Env, Info, Step};
pub use episode::{Episode, Outcome, World};
pub use error::{Error, Result};
pub use lanes::{AutoresetMode, EpisodeSummary, LaneStep, Lanes};
pub use multi_agent::{AgentStep, MultiAgentEnv, MultiStep};
pub use phase::Phase;
pub use picture::{Colour, Picture, Place, Shape, TextSize};
pub use registry::{BuiltIn, CLASSIC, TOY, make, make_multi_agent, specs, unknown_id};
pub use simulator::{ConfiguredSimulator, RenamedSetting, Simulator, read_settings};
pub use space::Space;
pub use spec::{Card, EnvId, EnvSpec, Field};
pub use task::Task;
pub use task_type::TaskType;
/// The settings of a simulator: one section of TOML.
pub use toml::Table as SettingsTable;
pub use vec_env::VecEnv;
