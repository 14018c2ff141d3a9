//! A coordinator on disk: one file, whole or absent, and a lock.

use std::path::Path;

use homeostat_core::{Persist, Snapshot};
use homeostat_lab::{Error, Result, RunFolder};
use homeostat_nn::{StateFile, decode, encode};
use homeostat_simppo::Coordinator;
use serde_json::json;

const KIND: &str = "homeostat-coordinator/1";
const FILE: &str = "coordinator.safetensors";
const NAME: &str = "coordinator";

/// The folder of one coordinator.
pub struct CoordinatorFolder {
    folder: RunFolder,
}

impl CoordinatorFolder {
    /// Opens the folder for this process alone, and makes it if need be.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { folder: RunFolder::open_or_create(path, FILE)? })
    }

    /// Brings back what an earlier life of the coordinator knew; whether there was one.
    pub fn restore(&self, coordinator: &mut Coordinator) -> Result<bool> {
        let path = self.folder.file(FILE);
        if !path.exists() {
            return Ok(false);
        }
        let damaged = |reason: String| Error::NoCheckpoint {
            path: path.clone(),
            reason: format!("{reason}; without the file, the coordinator starts afresh"),
        };
        let file = decode(&self.folder.read(FILE)?, KIND).map_err(|e| damaged(e.to_string()))?;
        coordinator.load(NAME, &file.arrays).map_err(|e| damaged(e.to_string()))?;
        Ok(true)
    }

    /// Writes what the coordinator knows.
    pub fn save(&self, coordinator: &Coordinator) -> Result<()> {
        let mut arrays = Snapshot::default();
        coordinator.save(NAME, &mut arrays);
        let header = json!({ "homeostat": env!("CARGO_PKG_VERSION") });
        let kind = KIND.to_owned();
        let file = StateFile { kind, header, arrays, ..StateFile::default() };
        self.folder.write(FILE, &encode(&file))
    }
}
