//! The settings of a run: layers of TOML, each value with the place it came from, then one
//! validated [`RunConfig`]. Only the second is passed on.

mod layers;
mod method_and_preset;
mod renamed_keys;
mod run_config;
mod section;
mod settings;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod validate;

pub use layers::{Assignment, EnvironmentVariable, SettingsFile, TOKEN_VARIABLE, UserLayers};
pub use run_config::{RunConfig, TeamMethod};
pub use settings::{Setting, Settings};
pub use source::Source;
pub use text::nearest;

/// Optional settings are switched off by this word, since TOML has no null.
const OFF: &str = "off";

/// The section of teams, and its setting that takes the place of the algorithm's `num_envs`.
const TEAM: &str = "simppo";
const TEAM_NUM_ENVS: &str = "simppo.num_envs";
const PPO_NUM_ENVS: &str = "ppo.num_envs";
