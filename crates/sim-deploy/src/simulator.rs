//! The value that this crate exports: environments, settings and plants of the cluster.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use homeostat_decide::{PlantSimulator, SimulatedSystem};
use homeostat_env::{
    ConfiguredSimulator, Env, EnvSpec, Episode, Error as EnvError, Simulator, read_settings,
    unknown_id,
};
use toml::Table;

use crate::service::{SERVICE, Service, spec};
use crate::{DeployConfig, DeployPlan, Error, Result};

/// Deployments on a cluster.
pub static SIMULATOR: Deploy = Deploy;

/// Deployments on a cluster, without settings yet.
#[derive(Debug, Clone, Copy)]
pub struct Deploy;

/// Deployments on a cluster, with their settings.
#[derive(Debug)]
pub struct ConfiguredDeploy {
    config: DeployConfig,
    /// Made when it is first needed: a pool of a thousand applications takes milliseconds.
    plan: OnceLock<DeployPlan>,
}

impl ConfiguredDeploy {
    /// The cluster, its applications and their load.
    pub fn plan(&self) -> Result<&DeployPlan> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan);
        }
        let plan = self.config.build()?;
        Ok(self.plan.get_or_init(|| plan))
    }
}

impl Simulator for Deploy {
    fn prefix(&self) -> &'static str {
        "deploy"
    }

    fn default_toml(&self) -> &'static str {
        include_str!("default.toml")
    }

    fn configure(&self, section: &Table) -> homeostat_env::Result<Arc<dyn ConfiguredSimulator>> {
        let config: DeployConfig = read_settings(section)?;
        Ok(Arc::new(ConfiguredDeploy { config, plan: OnceLock::new() }))
    }
}

impl PlantSimulator for Deploy {
    fn env(&self) -> &'static str {
        SERVICE
    }

    fn system(&self, configured: &dyn Any) -> homeostat_decide::Result<SimulatedSystem> {
        let configured: &ConfiguredDeploy = configured
            .downcast_ref()
            .ok_or_else(|| homeostat_decide::Error::plant("these settings are not of deploy"))?;
        let plan = configured.plan().map_err(homeostat_decide::Error::plant)?;
        Ok(SimulatedSystem::Pods(Arc::new(plan.clone())))
    }
}

impl ConfiguredSimulator for ConfiguredDeploy {
    fn specs(&self) -> Vec<EnvSpec> {
        vec![spec(&self.config)]
    }

    fn prepare(&self, _id: &str) -> homeostat_env::Result<()> {
        self.plan()?;
        Ok(())
    }

    fn make(&self, id: &str, agent: u32) -> homeostat_env::Result<Box<dyn Env>> {
        if id != SERVICE {
            return Err(unknown_id(id, [SERVICE].into_iter()));
        }
        Ok(Box::new(Episode::new(Service::new(self.plan()?.clone(), agent))))
    }
}

impl From<Error> for EnvError {
    fn from(error: Error) -> Self {
        match error {
            Error::OutOfRange { key, value, expected } => {
                Self::SettingOutOfRange { key, value, expected }
            }
            other => Self::CannotBeMade { reason: other.to_string() },
        }
    }
}
