//! The value that this crate exports: environments and settings of senders.

use std::sync::Arc;

use homeostat_env::{
    ConfiguredSimulator, Env, EnvSpec, Episode, Error as EnvError, Simulator, read_settings,
    unknown_id,
};
use toml::Table;

use crate::rate_env::{RATE, RateControl, spec};
use crate::{Error, LinkConfig};

/// Senders on a network path.
pub static SIMULATOR: Link = Link;

/// Senders on a network path, without settings yet.
#[derive(Debug, Clone, Copy)]
pub struct Link;

/// Senders on a network path, with their settings.
#[derive(Debug)]
pub struct ConfiguredLink {
    config: LinkConfig,
}

impl Simulator for Link {
    fn prefix(&self) -> &'static str {
        "link"
    }

    fn default_toml(&self) -> &'static str {
        include_str!("default.toml")
    }

    fn configure(&self, section: &Table) -> homeostat_env::Result<Arc<dyn ConfiguredSimulator>> {
        let config: LinkConfig = read_settings(section)?;
        Ok(Arc::new(ConfiguredLink { config }))
    }
}

impl ConfiguredSimulator for ConfiguredLink {
    fn specs(&self) -> Vec<EnvSpec> {
        vec![spec(&self.config)]
    }

    fn prepare(&self, _id: &str) -> homeostat_env::Result<()> {
        Ok(self.config.validate()?)
    }

    fn make(&self, id: &str, _agent: u32) -> homeostat_env::Result<Box<dyn Env>> {
        if id != RATE {
            return Err(unknown_id(id, [RATE].into_iter()));
        }
        self.config.validate()?;
        Ok(Box::new(Episode::new(RateControl::new(self.config.clone()))))
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
