//! The value that this crate exports: environments and settings of served models.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use homeostat_decide::{PlantSimulator, SimulatedSystem};
use homeostat_env::{
    ConfiguredSimulator, Env, EnvSpec, Episode, Error as EnvError, Simulator, read_settings,
    unknown_id,
};
use toml::Table;

use crate::clock_env::{CLOCK, Clock, spec};
use crate::{Error, GpuConfig, GpuPlan, Result};

/// Devices that serve models.
pub static SIMULATOR: Gpu = Gpu;

/// Devices that serve models, without settings yet.
#[derive(Debug, Clone, Copy)]
pub struct Gpu;

/// Devices that serve models, with their settings.
#[derive(Debug)]
pub struct ConfiguredGpu {
    config: GpuConfig,
    plan: OnceLock<GpuPlan>,
}

impl ConfiguredGpu {
    /// The devices, their models and their load.
    pub fn plan(&self) -> Result<&GpuPlan> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan);
        }
        let plan = self.config.build()?;
        Ok(self.plan.get_or_init(|| plan))
    }
}

impl Simulator for Gpu {
    fn prefix(&self) -> &'static str {
        "gpu"
    }

    fn default_toml(&self) -> &'static str {
        include_str!("default.toml")
    }

    fn configure(&self, section: &Table) -> homeostat_env::Result<Arc<dyn ConfiguredSimulator>> {
        let config: GpuConfig = read_settings(section)?;
        Ok(Arc::new(ConfiguredGpu { config, plan: OnceLock::new() }))
    }
}

impl PlantSimulator for Gpu {
    fn env(&self) -> &'static str {
        CLOCK
    }

    fn system(&self, configured: &dyn Any) -> homeostat_decide::Result<SimulatedSystem> {
        let configured: &ConfiguredGpu = configured
            .downcast_ref()
            .ok_or_else(|| homeostat_decide::Error::plant("these settings are not of gpu"))?;
        Ok(SimulatedSystem::GpuClocks(Arc::new(configured.plan()?.clone())))
    }
}

impl ConfiguredSimulator for ConfiguredGpu {
    fn specs(&self) -> Vec<EnvSpec> {
        vec![spec(self.config.steps)]
    }

    fn prepare(&self, _id: &str) -> homeostat_env::Result<()> {
        self.plan()?;
        Ok(())
    }

    fn make(&self, id: &str, agent: u32) -> homeostat_env::Result<Box<dyn Env>> {
        if id != CLOCK {
            return Err(unknown_id(id, [CLOCK].into_iter()));
        }
        Ok(Box::new(Episode::new(Clock::new(self.plan()?.clone(), agent))))
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
