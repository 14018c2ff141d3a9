//! What a simulator crate exports: one value by which the workbench finds its environments,
//! their settings, and nothing else of it.

use std::any::Any;
use std::sync::Arc;

use toml::Table;

use crate::{Env, EnvSpec, Error, MultiAgentEnv, Result, Task, unknown_id};

/// A family of environments with settings of its own, as its crate exports it.
///
/// The ids of its environments start with [`Simulator::prefix`], and its settings are the section
/// of that name. Lists of environments, settings, the command line and Python take everything
/// from here.
pub trait Simulator: Sync {
    /// The first part of every id, as `classic` in `classic/cartpole-v1`; also the name of the
    /// settings section. Lower-case letters, digits and hyphens.
    fn prefix(&self) -> &'static str;

    /// The commented reference of the settings: TOML that starts with `[prefix]` and states every
    /// default. Empty for a simulator without settings.
    fn default_toml(&self) -> &'static str {
        ""
    }

    /// Settings that had another name in the release before.
    fn renamed_settings(&self) -> &'static [RenamedSetting] {
        &[]
    }

    /// Whether the environment with this id uses the setting with this name.
    fn uses(&self, _id: &str, _setting: &str) -> bool {
        true
    }

    /// Reads the settings: the section as a whole, defaults filled in. Values that cannot be read
    /// are refused here; what takes long waits for [`ConfiguredSimulator::prepare`].
    fn configure(&self, section: &Table) -> Result<Arc<dyn ConfiguredSimulator>>;
}

/// The environments of a simulator with one set of settings.
pub trait ConfiguredSimulator: Any + Send + Sync {
    /// Every environment, ordered by id.
    fn specs(&self) -> Vec<EnvSpec>;

    /// Whether many agents share the environment with this id.
    fn is_shared(&self, _id: &str) -> bool {
        false
    }

    /// Checks that the environment with this id can be made with these settings, and does what
    /// takes long and is shared by all its copies.
    fn prepare(&self, _id: &str) -> Result<()> {
        Ok(())
    }

    /// A new environment with one agent in it. `agent` is the number of its agent, for
    /// simulators that give each agent its own task.
    fn make(&self, id: &str, agent: u32) -> Result<Box<dyn Env>>;

    /// A new environment that many agents share.
    fn make_multi_agent(&self, id: &str) -> Result<Box<dyn MultiAgentEnv>> {
        Err(unknown_id(id, std::iter::empty()))
    }

    /// What decides how many agents share the environment with this id, to name it in an error:
    /// "which is faas.functions".
    fn agents_come_from(&self, _id: &str) -> Option<&'static str> {
        None
    }

    /// The tasks that agents of a shared environment can have, by the numbers that
    /// [`MultiAgentEnv::task`] returns; none where all agents do the same.
    fn tasks(&self, _id: &str) -> Result<Vec<Task>> {
        Ok(Vec::new())
    }
}

/// A setting with the name it had in the release before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenamedSetting {
    /// The name before, with its section: `faas.most_containers`.
    pub old: &'static str,
    /// The name now, with its section.
    pub new: &'static str,
}

impl dyn ConfiguredSimulator {
    /// The simulator as its own type, for code that is about it alone.
    pub fn downcast<T: ConfiguredSimulator>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}

/// The settings of a section as a type of the simulator's.
pub fn read_settings<T: serde::de::DeserializeOwned>(section: &Table) -> Result<T> {
    let unreadable =
        |error: toml::de::Error| Error::UnreadableSettings { reason: error.message().to_owned() };
    T::deserialize(section.clone()).map_err(unreadable)
}
