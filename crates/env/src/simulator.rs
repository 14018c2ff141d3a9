//! What a simulator crate exports: one value that lists its environments and their settings.

use std::any::Any;
use std::sync::Arc;

use toml::Table;

use crate::{Env, EnvSpec, Error, MultiAgentEnv, Result, Task, unknown_id};

/// A family of environments with settings of its own.
///
/// The ids of its environments start with [`Simulator::prefix`], and its settings are the section
/// of that name. Configuration, command line, Python and reports read everything they know of a
/// simulator from this value.
///
/// ```
/// use homeostat_env::{CLASSIC, SettingsTable, Simulator};
///
/// # fn main() -> homeostat_env::Result<()> {
/// let simulator: &dyn Simulator = &CLASSIC;
/// let configured = simulator.configure(&SettingsTable::new())?;
/// let ids: Vec<String> = configured.specs().iter().map(|spec| spec.id.to_string()).collect();
/// assert!(ids.iter().all(|id| id.starts_with(simulator.prefix())));
///
/// let mut env = configured.make("classic/pendulum-v1", 0)?;
/// assert_eq!(env.reset(Some(1))?.len(), 3);
/// # Ok(())
/// # }
/// ```
pub trait Simulator: Sync {
    /// The first part of every id, as `classic` in `classic/cartpole-v1`; also the name of the
    /// settings section. Lower-case letters, digits and hyphens.
    fn prefix(&self) -> &'static str;

    /// The commented reference of the settings: TOML that starts with `[prefix]` and states every
    /// default. Empty for a simulator without settings.
    fn default_toml(&self) -> &'static str {
        ""
    }

    /// Settings that were renamed since the previous release.
    fn renamed_settings(&self) -> &'static [RenamedSetting] {
        &[]
    }

    /// Whether the environment with this id uses the setting with this name.
    fn uses(&self, _id: &str, _setting: &str) -> bool {
        true
    }

    /// Reads the section, with defaults filled in. Values of a wrong type are an error here; slow
    /// work waits for [`ConfiguredSimulator::prepare`].
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

    /// Checks that the environment with this id can be made with these settings, and does the slow
    /// work that all its copies share.
    fn prepare(&self, _id: &str) -> Result<()> {
        Ok(())
    }

    /// A new environment with one agent. `agent` is the agent's number, for simulators that give
    /// each agent its own task.
    fn make(&self, id: &str, agent: u32) -> Result<Box<dyn Env>>;

    /// A new environment that many agents share.
    fn make_multi_agent(&self, id: &str) -> Result<Box<dyn MultiAgentEnv>> {
        Err(unknown_id(id, std::iter::empty()))
    }

    /// The setting that determines the number of agents of the environment with this id, for error
    /// messages: "which is faas.functions".
    fn agents_come_from(&self, _id: &str) -> Option<&'static str> {
        None
    }

    /// The tasks of a shared environment's agents, in the order of [`MultiAgentEnv::task`]; empty
    /// where all agents have the same task.
    fn tasks(&self, _id: &str) -> Result<Vec<Task>> {
        Ok(Vec::new())
    }
}

/// A setting that was renamed since the previous release; the old name is still accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenamedSetting {
    /// The old name, with its section, such as `simppo.view`.
    pub old: &'static str,
    /// The new name, with its section.
    pub new: &'static str,
}

impl dyn ConfiguredSimulator {
    /// The concrete type, for code that knows this simulator.
    pub fn downcast<T: ConfiguredSimulator>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}

/// Deserialises a settings section into the simulator's own type.
pub fn read_settings<T: serde::de::DeserializeOwned>(section: &Table) -> Result<T> {
    let unreadable =
        |error: toml::de::Error| Error::UnreadableSettings { reason: error.message().to_owned() };
    T::deserialize(section.clone()).map_err(unreadable)
}
