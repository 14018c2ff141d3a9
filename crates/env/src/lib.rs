//! Reinforcement-learning environments, with the interfaces of Gymnasium and PettingZoo.
//!
//! * [`Env`]: one agent. [`VecEnv`]: copies of one environment, stepped together.
//!   [`MultiAgentEnv`]: agents that share an environment, join and leave.
//! * [`Dynamics`]: write state and transition function, and [`Episode`] makes an [`Env`] of them.
//! * [`Simulator`]: what a crate exports to offer a family of environments with settings.
//! * [`check_env`] tests an environment against its contract and explains each violation.
//! * [`envs`]: the classic control tasks of Gymnasium, and small environments that test learners.
//!
//! `terminated` (the task ended) and `truncated` (a limit stopped the episode) stay separate
//! everywhere, because learners bootstrap through truncation. Learners, training loops and
//! wrappers are not part of this crate. Layer 1: no I/O.
//!
//! ```
//! use homeostat_core::Stream;
//! use homeostat_env::make;
//!
//! # fn main() -> homeostat_env::Result<()> {
//! let mut env = make("classic/cartpole-v1")?;
//! let mut rng = Stream::from_seed(1);
//! env.reset(Some(1))?;
//! let mut steps = 0;
//! loop {
//!     steps += 1;
//!     let action = env.spec().action.sample(&mut rng);
//!     if env.step(&action)?.done() {
//!         break;
//!     }
//! }
//! println!("random actions balance the pole for {steps} steps");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod action;
mod check;
mod check_multi_agent;
mod check_spec;
mod env;
pub mod envs;
mod episode;
mod error;
mod multi_agent;
mod phase;
mod picture;
mod played;
mod registry;
mod service;
mod simulator;
mod space;
mod spec;
mod sub_envs;
mod task;
mod task_type;
mod vec_env;

pub use action::Action;
pub use check::check_env;
pub use check_multi_agent::check_multi_agent_env;
pub use check_spec::Finding;
pub use env::{Env, Info, Step};
pub use episode::{Dynamics, Episode, Outcome};
pub use error::{Error, Result};
pub use multi_agent::{AgentStep, MultiAgentEnv, MultiStep};
pub use phase::Phase;
pub use picture::{Colour, Picture, Place, Shape, TextSize};
pub use played::{Played, StoredAction};
pub use registry::{BuiltIn, CLASSIC, TOY, make, make_multi_agent, specs, unknown_id};
pub use service::ServiceTotals;
pub use simulator::{ConfiguredSimulator, RenamedSetting, Simulator, read_settings};
pub use space::Space;
pub use spec::{Card, EnvId, EnvSpec, Field};
pub use sub_envs::{AutoresetMode, EpisodeSummary, SubEnvStep, SubEnvs};
pub use task::Task;
pub use task_type::TaskType;
/// The settings of a simulator: one section of TOML.
pub use toml::Table as SettingsTable;
pub use vec_env::VecEnv;
