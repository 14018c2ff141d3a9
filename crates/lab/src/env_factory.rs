//! Environments by id, made with one set of settings.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use homeostat_decide::{PlantSource, SimulatedSystem};
use homeostat_env::{
    ConfiguredSimulator, Env, EnvSpec, Error as EnvError, MultiAgentEnv, Task, unknown_id,
};

use crate::config::Settings;
use crate::{Environments, Result, UserLayers};

/// Makes the environments of every simulator, each with its settings.
#[derive(Clone)]
pub struct EnvFactory {
    environments: Environments,
    /// In the order of the list.
    configured: Vec<Arc<dyn ConfiguredSimulator>>,
}

impl EnvFactory {
    pub(crate) fn new(
        environments: Environments,
        configured: Vec<Arc<dyn ConfiguredSimulator>>,
    ) -> Self {
        Self { environments, configured }
    }

    /// Environments with default settings.
    pub fn with_defaults(environments: &Environments) -> Result<Self> {
        Settings::resolve(environments, &UserLayers::default())?.simulators()
    }

    /// Checks that the environment with this id can be made, and does what takes long and is
    /// shared by all its copies.
    pub fn prepare(&self, id: &str) -> Result<(), EnvError> {
        self.of(id)?.prepare(id)
    }

    /// A new environment with one agent in it. `agent` is the number of its agent, for
    /// simulators that give each agent its own task.
    pub fn make(&self, id: &str, agent: u32) -> Result<Box<dyn Env>, EnvError> {
        self.of(id)?.make(id, agent).map_err(|error| self.with_hint(error))
    }

    /// A new environment that many agents share.
    pub fn make_multi_agent(&self, id: &str) -> Result<Box<dyn MultiAgentEnv>, EnvError> {
        if !self.is_shared(id) {
            return Err(EnvError::SingleAgent { id: self.spec(id)?.id.to_string() });
        }
        self.of(id)?.make_multi_agent(id).map_err(|error| self.with_hint(error))
    }

    /// Whether many agents share the environment with this id.
    pub fn is_shared(&self, id: &str) -> bool {
        self.of(id).is_ok_and(|simulator| simulator.is_shared(id))
    }

    /// What the environment with this id is.
    pub fn spec(&self, id: &str) -> Result<EnvSpec, EnvError> {
        let mut specs = self.of(id)?.specs().into_iter();
        let found = specs.find(|spec| spec.id.to_string() == id);
        found.ok_or_else(|| self.unknown(id))
    }

    /// What every environment is, ordered by id.
    pub fn specs(&self) -> Vec<EnvSpec> {
        let mut specs: Vec<_> =
            self.configured.iter().flat_map(|simulator| simulator.specs()).collect();
        specs.sort_by(|a, b| a.id.cmp(&b.id));
        specs
    }

    /// The ids of every environment that many agents share.
    pub(crate) fn shared_ids(&self) -> Vec<String> {
        let ids = self.specs().into_iter().map(|spec| spec.id.to_string());
        ids.filter(|id| self.is_shared(id)).collect()
    }

    /// The tasks that agents of a shared environment can have; none where all do the same.
    pub fn tasks(&self, id: &str) -> Result<Vec<Task>, EnvError> {
        self.of(id)?.tasks(id)
    }

    /// The setting that decides how many agents share the environment with this id.
    pub(crate) fn agents_come_from(&self, id: &str) -> Option<&'static str> {
        self.of(id).ok()?.agents_come_from(id)
    }

    /// A simulator as its own type, for code that is about it alone.
    pub fn simulator<T: ConfiguredSimulator>(&self) -> Option<&T> {
        self.configured.iter().find_map(|simulator| simulator.downcast())
    }

    /// The pods of the simulator with this prefix. Refuses a simulator of anything else.
    pub fn plants(&self, prefix: &str) -> Result<Arc<dyn PlantSource>> {
        Ok(self.system(prefix)?.pods()?)
    }

    /// The system of the simulator with this prefix, as a simulation plays it.
    pub fn system(&self, prefix: &str) -> Result<SimulatedSystem> {
        let plants = self.environments.plants(prefix)?;
        let mut both = self.environments.iter().zip(&self.configured);
        let found = both.find(|(simulator, _)| simulator.prefix() == prefix);
        let (_, configured) = found.expect("the list has just been asked");
        let configured: &dyn Any = configured.as_ref();
        Ok(plants.system(configured)?)
    }

    /// The list that these environments are from.
    pub fn environments(&self) -> &Environments {
        &self.environments
    }

    fn of(&self, id: &str) -> Result<&dyn ConfiguredSimulator, EnvError> {
        let prefix = id.split_once('/').map(|(prefix, _)| prefix);
        let mut both = self.environments.iter().zip(&self.configured);
        let found = both.find(|(simulator, _)| Some(simulator.prefix()) == prefix);
        found.map(|(_, configured)| configured.as_ref()).ok_or_else(|| self.unknown(id))
    }

    /// A simulator suggests only ids of its own; the one that was meant may belong to another.
    fn with_hint(&self, error: EnvError) -> EnvError {
        match error {
            EnvError::UnknownId { id, .. } => self.unknown(&id),
            other => other,
        }
    }

    fn unknown(&self, id: &str) -> EnvError {
        let ids: Vec<_> = self.specs().iter().map(|spec| spec.id.to_string()).collect();
        unknown_id(id, ids.iter().map(String::as_str))
    }
}

impl fmt::Debug for EnvFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.environments.fmt(f)
    }
}
