//! The value that this crate exports: environments and settings of microservices.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use homeostat_decide::{PlantSimulator, SimulatedSystem};
use homeostat_env::{
    ConfiguredSimulator, Env, EnvSpec, Episode, Error as EnvError, Simulator, read_settings,
    unknown_id,
};
use toml::Table;

use crate::container::{CONTAINER, Container, spec};
use crate::{Error, MeshConfig, MeshPlan, Result};

/// Microservices on a cluster.
pub static SIMULATOR: MeshSimulator = MeshSimulator;

/// Microservices, without settings yet.
#[derive(Debug, Clone, Copy)]
pub struct MeshSimulator;

/// Microservices, with their settings.
#[derive(Debug)]
pub struct ConfiguredMesh {
    config: MeshConfig,
    /// Made when it is first needed: SLOs take a minute of simulated time.
    plan: OnceLock<MeshPlan>,
}

impl ConfiguredMesh {
    /// The cluster, its application and its SLOs.
    pub fn plan(&self) -> Result<&MeshPlan> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan);
        }
        let plan = self.config.build()?;
        Ok(self.plan.get_or_init(|| plan))
    }
}

impl Simulator for MeshSimulator {
    fn prefix(&self) -> &'static str {
        "mesh"
    }

    fn default_toml(&self) -> &'static str {
        include_str!("default.toml")
    }

    fn configure(&self, section: &Table) -> homeostat_env::Result<Arc<dyn ConfiguredSimulator>> {
        let config: MeshConfig = read_settings(section)?;
        Ok(Arc::new(ConfiguredMesh { config, plan: OnceLock::new() }))
    }
}

impl PlantSimulator for MeshSimulator {
    fn env(&self) -> &'static str {
        CONTAINER
    }

    fn system(&self, configured: &dyn Any) -> homeostat_decide::Result<SimulatedSystem> {
        let configured: &ConfiguredMesh = configured
            .downcast_ref()
            .ok_or_else(|| homeostat_decide::Error::plant("these settings are not of mesh"))?;
        Ok(SimulatedSystem::Containers(Arc::new(configured.plan()?.clone())))
    }
}

impl ConfiguredSimulator for ConfiguredMesh {
    fn specs(&self) -> Vec<EnvSpec> {
        vec![spec(&self.config)]
    }

    fn prepare(&self, _id: &str) -> homeostat_env::Result<()> {
        self.plan()?;
        Ok(())
    }

    fn make(&self, id: &str, agent: u32) -> homeostat_env::Result<Box<dyn Env>> {
        if id != CONTAINER {
            return Err(unknown_id(id, [CONTAINER].into_iter()));
        }
        Ok(Box::new(Episode::new(Container::new(self.plan()?.clone(), agent))))
    }
}

impl From<Error> for homeostat_decide::Error {
    fn from(error: Error) -> Self {
        Self::plant(error)
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
