//! A coordinator on disk: one file, whole or absent, and a lock.

use std::path::Path;

use homeostat_core::{Persist, Snapshot};
use homeostat_lab::{Error, Result, RunDirectory};
use homeostat_nn::{StateFile, decode, encode};
use homeostat_simppo::Coordinator;
use serde_json::json;

const KIND: &str = "homeostat-coordinator/2";
const FILE: &str = "coordinator.safetensors";
const NAME: &str = "coordinator";

/// The directory of one coordinator.
pub struct CoordinatorDirectory {
    directory: RunDirectory,
}

impl CoordinatorDirectory {
    /// Opens the directory for this process alone, and makes it if need be.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { directory: RunDirectory::open_or_create(path, FILE)? })
    }

    /// Restores the platform and the agents of an earlier coordinator; whether there was one.
    pub fn restore(&self, coordinator: &mut Coordinator) -> Result<bool> {
        let path = self.directory.file(FILE);
        if !path.exists() {
            return Ok(false);
        }
        let damaged = |reason: String| Error::NoCheckpoint {
            path: path.clone(),
            reason: format!("{reason}; without the file, the coordinator starts afresh"),
        };
        let file = decode(&self.directory.read(FILE)?, KIND).map_err(|e| damaged(e.to_string()))?;
        coordinator.load(NAME, &file.arrays).map_err(|e| damaged(e.to_string()))?;
        Ok(true)
    }

    /// The state of a coordinator, to be written while it goes on.
    pub fn state_of(coordinator: &Coordinator) -> Snapshot {
        let mut state = Snapshot::default();
        coordinator.save(NAME, &mut state);
        state
    }

    /// Writes the state of a coordinator.
    pub fn write(&self, arrays: Snapshot) -> Result<()> {
        let header = json!({ "homeostat": env!("CARGO_PKG_VERSION") });
        let kind = KIND.to_owned();
        let file = StateFile { kind, header, arrays, ..StateFile::default() };
        self.directory.write(FILE, &encode(&file))
    }
}
