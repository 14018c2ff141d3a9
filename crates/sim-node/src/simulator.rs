//! The value that this crate exports: environments and settings of core frequencies.

use std::sync::Arc;

use homeostat_env::{
    ConfiguredSimulator, Env, EnvSpec, Episode, Error as EnvError, Simulator, read_settings,
    unknown_id,
};
use toml::Table;

use crate::frequency_env::{FREQUENCY, FrequencyControl, spec};
use crate::{Error, NodeConfig};

/// Core frequencies of a node.
pub static SIMULATOR: Node = Node;

/// Core frequencies of a node, without settings yet.
#[derive(Debug, Clone, Copy)]
pub struct Node;

/// Core frequencies of a node, with their settings.
#[derive(Debug)]
pub struct ConfiguredNode {
    config: NodeConfig,
}

impl Simulator for Node {
    fn prefix(&self) -> &'static str {
        "cpufreq"
    }

    fn default_toml(&self) -> &'static str {
        include_str!("default.toml")
    }

    fn configure(&self, section: &Table) -> homeostat_env::Result<Arc<dyn ConfiguredSimulator>> {
        let config: NodeConfig = read_settings(section)?;
        Ok(Arc::new(ConfiguredNode { config }))
    }
}

impl ConfiguredSimulator for ConfiguredNode {
    fn specs(&self) -> Vec<EnvSpec> {
        vec![spec(&self.config)]
    }

    fn prepare(&self, _id: &str) -> homeostat_env::Result<()> {
        self.config.build()?;
        Ok(())
    }

    fn make(&self, id: &str, _agent: u32) -> homeostat_env::Result<Box<dyn Env>> {
        if id != FREQUENCY {
            return Err(unknown_id(id, [FREQUENCY].into_iter()));
        }
        Ok(Box::new(Episode::new(FrequencyControl::new(self.config.build()?))))
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
