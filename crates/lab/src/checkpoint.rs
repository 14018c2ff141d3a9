//! The whole state of a run, as the bytes of one file.

use std::collections::BTreeMap;

use homeostat_core::Snapshot;
use homeostat_nn::{Kernel, StateFile, decode, encode};
use serde_json::json;

use crate::config::RunConfig;
use crate::{Error, Result};

const KIND: &str = "homeostat-checkpoint/1";

/// The whole state of a run.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    file: StateFile,
}

impl Checkpoint {
    /// `state` after `step` steps, with the settings that make the run.
    pub(crate) fn new(
        step: u64,
        kernel: Kernel,
        identity: &BTreeMap<String, String>,
        mut state: Snapshot,
    ) -> Self {
        state.put_u64("step", [step]);
        let header = json!({
            "homeostat": env!("CARGO_PKG_VERSION"),
            "step": step,
            "kernel": kernel.to_string(),
            "settings": identity,
        });
        let kind = KIND.to_owned();
        Self { file: StateFile { kind, header, arrays: state, ..StateFile::default() } }
    }

    /// Reads a checkpoint, or says why it cannot be trusted.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let this = Self { file: decode(bytes, KIND)? };
        this.step()?;
        Ok(this)
    }

    /// The bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(&self.file)
    }

    /// Steps that each agent had taken.
    pub fn step(&self) -> Result<u64> {
        Ok(self.file.arrays.u64s("step", 1)?[0])
    }

    /// The kernel it was trained on.
    pub fn kernel(&self) -> &str {
        self.file.header["kernel"].as_str().unwrap_or("unknown")
    }

    pub(crate) fn state(&self) -> &Snapshot {
        &self.file.arrays
    }

    /// Refuses by name a setting that would make it another run.
    pub(crate) fn refuse_changes(&self, config: &RunConfig) -> Result<()> {
        for (key, now) in &config.identity {
            let then = self.file.header["settings"][key.as_str()].as_str().unwrap_or("absent");
            if then != now {
                let (key, then, now) = (key.clone(), then.to_owned(), now.clone());
                return Err(Error::SettingChanged { key, then, now });
            }
        }
        Ok(())
    }
}
