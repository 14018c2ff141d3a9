//! The value that this crate exports: environments, settings and plants of the platform.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use homeostat_decide::{PlantSimulator, SimulatedSystem};
use homeostat_env::{
    ConfiguredSimulator, Env, EnvSpec, Error as EnvError, MultiAgentEnv, Simulator, Task,
    read_settings, unknown_id,
};
use toml::Table;

use crate::environments::{CHAIN, is_shared, make, make_multi_agent, specs};
use crate::{Error, FaasConfig, FaasPlan, Result};

/// The serverless platform.
pub static SIMULATOR: Faas = Faas;

/// The serverless platform, without settings yet.
#[derive(Debug, Clone, Copy)]
pub struct Faas;

impl Simulator for Faas {
    fn prefix(&self) -> &'static str {
        "faas"
    }

    fn default_toml(&self) -> &'static str {
        include_str!("default.toml")
    }

    fn uses(&self, id: &str, setting: &str) -> bool {
        setting != "chains" || id == CHAIN
    }

    fn configure(&self, section: &Table) -> homeostat_env::Result<Arc<dyn ConfiguredSimulator>> {
        let config: FaasConfig = read_settings(section)?;
        Ok(Arc::new(ConfiguredFaas::new(config)))
    }
}

impl PlantSimulator for Faas {
    fn env(&self) -> &'static str {
        "faas/fleet-v3"
    }

    fn system(&self, configured: &dyn Any) -> homeostat_decide::Result<SimulatedSystem> {
        let configured: &ConfiguredFaas = configured
            .downcast_ref()
            .ok_or_else(|| homeostat_decide::Error::plant("these settings are not of faas"))?;
        let plan = configured.plan().map_err(homeostat_decide::Error::plant)?;
        Ok(SimulatedSystem::Pods(Arc::new(plan.clone())))
    }
}

/// The serverless platform with its settings. Functions are profiled when the first environment
/// needs it, since that takes a moment.
#[derive(Debug)]
pub struct ConfiguredFaas {
    config: FaasConfig,
    plan: OnceLock<FaasPlan>,
}

impl ConfiguredFaas {
    fn new(config: FaasConfig) -> Self {
        Self { config, plan: OnceLock::new() }
    }

    /// The platform, its functions and their load.
    pub fn plan(&self) -> Result<&FaasPlan> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan);
        }
        let plan = self.config.build()?;
        Ok(self.plan.get_or_init(|| plan))
    }

    fn unknown(&self, id: &str) -> EnvError {
        let ids: Vec<String> = self.specs().iter().map(|spec| spec.id.to_string()).collect();
        unknown_id(id, ids.iter().map(String::as_str))
    }
}

impl ConfiguredSimulator for ConfiguredFaas {
    fn specs(&self) -> Vec<EnvSpec> {
        specs(&self.config)
    }

    fn is_shared(&self, id: &str) -> bool {
        is_shared(id)
    }

    fn prepare(&self, id: &str) -> homeostat_env::Result<()> {
        let plan = self.plan()?;
        if id == CHAIN {
            plan.chained()?;
        }
        Ok(())
    }

    fn make(&self, id: &str, agent: u32) -> homeostat_env::Result<Box<dyn Env>> {
        if is_shared(id) {
            return Err(EnvError::ManyAgents { id: id.to_owned() });
        }
        make(id, self.plan()?, agent).ok_or_else(|| self.unknown(id))
    }

    fn make_multi_agent(&self, id: &str) -> homeostat_env::Result<Box<dyn MultiAgentEnv>> {
        self.prepare(id)?;
        make_multi_agent(id, self.plan()?).ok_or_else(|| self.unknown(id))
    }

    fn agents_come_from(&self, id: &str) -> Option<&'static str> {
        let origin =
            if id == CHAIN { "the stages of faas.chains" } else { "which is faas.functions" };
        is_shared(id).then_some(origin)
    }

    fn tasks(&self, id: &str) -> homeostat_env::Result<Vec<Task>> {
        let plan = self.plan()?;
        let plan = if id == CHAIN { plan.chained()? } else { plan };
        Ok(plan.tasks()?)
    }
}

impl From<Error> for EnvError {
    fn from(error: Error) -> Self {
        match error {
            Error::OutOfRange { what, value, expected } => {
                Self::SettingOutOfRange { key: what, value, expected }
            }
            other => Self::CannotBeMade { reason: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> Table {
        let reference: Table = SIMULATOR.default_toml().parse().unwrap();
        let mut section = reference["faas"].as_table().unwrap().clone();
        section.extend(text.parse::<Table>().unwrap());
        section
    }

    #[test]
    fn the_reference_states_the_defaults_of_the_code() {
        let config: FaasConfig = read_settings(&section("")).unwrap();
        assert_eq!(config, FaasConfig::default());
    }

    #[test]
    fn what_is_refused_names_the_setting() {
        let check = |text: &str, id: &str, expect: &str| {
            let configured = SIMULATOR.configure(&section(text));
            let refused = configured.and_then(|configured| configured.prepare(id));
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(expect), "{refused}");
        };
        check("steps = \"many\"", "faas/fleet-v3", "cannot use these settings: invalid type");
        check("steps = 0", "faas/fleet-v3", "faas.steps = 0 is out of range");
        check("chains = [\"primes>primes\"]", CHAIN, "faas.chains = ");
    }

    #[test]
    fn shared_environments_have_a_typed_task_for_each_agent() {
        let configured = SIMULATOR.configure(&section("")).unwrap();
        assert_eq!(configured.tasks("faas/fleet-v3").unwrap().len(), 12);
        let stages = configured.tasks(CHAIN).unwrap();
        assert_eq!((stages.len(), stages[0].name.as_str()), (8, "uploader"));
        assert!(configured.downcast::<ConfiguredFaas>().is_some());
    }
}
