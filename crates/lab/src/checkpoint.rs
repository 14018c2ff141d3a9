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
    pub fn new(
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

    /// The saved arrays of every agent and environment.
    pub fn state(&self) -> &Snapshot {
        &self.file.arrays
    }

    /// Refuses by name a setting that would make it another run.
    pub fn refuse_changes(&self, config: &RunConfig) -> Result<()> {
        let settings = &self.file.header["settings"];
        let environments = config.env_factory.environments();
        for (key, now) in &config.identity {
            // A checkpoint of an earlier release has the names of its time.
            let then = settings[key.as_str()].as_str();
            let then = then
                .or_else(|| settings[environments.former_key(key)?].as_str())
                .unwrap_or("absent");
            if then != now {
                let (key, then, now) = (key.clone(), then.to_owned(), now.clone());
                return Err(Error::SettingChanged { key, then, now });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environments;
    use crate::config::{Assignment, Settings, UserLayers};

    #[test]
    fn a_checkpoint_with_the_keys_of_an_earlier_release_still_fits() {
        let flags = [Assignment::set("run.algorithm", "simppo")];
        let environments = Environments::builtin();
        let settings = Settings::resolve(&environments, &UserLayers::of_flags(flags)).unwrap();
        let config = settings.validate().unwrap();
        let old_name = |key: &String| environments.former_key(key).unwrap_or(key).to_owned();
        let old: BTreeMap<String, String> =
            config.identity.iter().map(|(key, value)| (old_name(key), value.clone())).collect();
        assert!(old.contains_key("simppo.pay"));
        let checkpoint = |identity: &BTreeMap<String, String>| {
            let written = Checkpoint::new(7, config.kernel, identity, Snapshot::default());
            Checkpoint::from_bytes(&written.to_bytes()).unwrap()
        };
        checkpoint(&old).refuse_changes(&config).unwrap();
        let mut changed = old;
        changed.insert("simppo.pay".to_owned(), "\"own\"".to_owned());
        let refused = checkpoint(&changed).refuse_changes(&config).unwrap_err().to_string();
        assert!(refused.contains("simppo.reward_sharing was \"own\""), "{refused}");
    }
}
