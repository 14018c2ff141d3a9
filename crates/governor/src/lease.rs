//! Leases: files that say which device a governor changes and what it was before, so that it is
//! restored whatever happens to the process.
//!
//! A lock of the file system says whether a device has an owner: the kernel releases it when the process
//! ends, however it ends. The lease also names the process, for messages and in case the file with the
//! lock was deleted.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::process_identity::ProcessIdentity;

/// What a governor has changed, or is about to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The device.
    pub uuid: String,
    /// Its product name.
    pub gpu: String,
    /// The power limit to restore, mW; none if it is not changed. NVML does not tell whether clocks were
    /// locked before: they are unlocked.
    pub power_limit_mw: Option<u32>,
    /// The owner.
    pub owner: ProcessIdentity,
}

/// Why a device cannot be owned.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// By another governor.
    #[error(
        "{uuid} is governed by {owner}: stop that one first; two governors would undo each other's work"
    )]
    Owned {
        /// The device.
        uuid: String,
        /// Its owner.
        owner: String,
    },
    /// The directory or a file.
    #[error("cannot {action} {}: {source}; the directory of leases must be writable and survive the process (settings: lease_directory)", path.display())]
    File {
        /// What failed.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Where leases are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseDirectory(pub PathBuf);

impl LeaseDirectory {
    /// The devices with a lease.
    pub fn devices(&self) -> Result<Vec<String>, LeaseError> {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(failed("list", &self.0)(source)),
        };
        let mut devices = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed("list", &self.0))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                devices.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            }
        }
        devices.sort();
        Ok(devices)
    }

    /// Owns a device until the result is dropped.
    pub fn lock(&self, uuid: &str) -> Result<LockedDevice, LeaseError> {
        std::fs::create_dir_all(&self.0).map_err(failed("create", &self.0))?;
        let path = self.0.join(format!("{uuid}.lock"));
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(failed("open", &path))?;
        let device = LockedDevice { directory: self.0.clone(), uuid: uuid.to_owned(), lock };
        let owner = || match device.former() {
            Ok(Some(Former::Lease(lease))) => lease.owner.to_string(),
            _ => "another process".to_owned(),
        };
        let owned = |owner| LeaseError::Owned { uuid: uuid.to_owned(), owner };
        match device.lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(owned(owner())),
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path)(source)),
        }
        match device.former()? {
            Some(Former::Lease(lease)) if lease.owner.is_alive() => {
                // Not an own one: a process takes each lock once.
                Err(owned(lease.owner.to_string()))
            }
            _ => Ok(device),
        }
    }
}

/// A device that belongs to this process.
#[derive(Debug)]
pub struct LockedDevice {
    directory: PathBuf,
    uuid: String,
    lock: File,
}

/// The lease of a process that did not restore its device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Former {
    /// It can be read.
    Lease(Lease),
    /// It cannot: the device is known, its power limit is not.
    Unreadable(String),
}

impl LockedDevice {
    /// The device.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The lease on the disk.
    pub fn former(&self) -> Result<Option<Former>, LeaseError> {
        let path = self.path();
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("read", &path)(source)),
        };
        Ok(Some(match serde_json::from_slice(&text) {
            Ok(lease) => Former::Lease(lease),
            Err(error) => Former::Unreadable(error.to_string()),
        }))
    }

    /// Writes the lease so that after a crash it is there in whole or not at all. Before the device
    /// is changed.
    pub fn write(&self, lease: &Lease) -> Result<(), LeaseError> {
        let path = self.path();
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
            serde_json::to_writer_pretty(&mut file, lease)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            self.sync_directory()
        };
        write().map_err(failed("write", &path))
    }

    /// Removes the lease. After the device was restored.
    pub fn clear(&self) -> Result<(), LeaseError> {
        let path = self.path();
        let clear = || match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.sync_directory(),
        };
        clear().map_err(failed("remove", &path))
    }

    fn path(&self) -> PathBuf {
        self.directory.join(format!("{}.json", self.uuid))
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LeaseError {
    let path = path.to_owned();
    move |source| LeaseError::File { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "GPU-1";

    fn lease(owner: ProcessIdentity) -> Lease {
        Lease { uuid: UUID.to_owned(), gpu: "A".to_owned(), power_limit_mw: Some(700_000), owner }
    }

    #[test]
    fn a_device_has_one_owner_who_is_named() {
        let place = tempfile::tempdir().unwrap();
        let leases = LeaseDirectory(place.path().join("leases"));
        assert_eq!(leases.devices().unwrap(), Vec::<String>::new());
        let own = ProcessIdentity::own().unwrap();
        let device = leases.lock(UUID).unwrap();
        device.write(&lease(own.clone())).unwrap();
        let refusal = leases.lock(UUID).unwrap_err().to_string();
        let expected = format!("GPU-1 is governed by process {}: stop that one first", own.pid);
        assert!(refusal.starts_with(&expected), "{refusal}");
        assert_eq!(leases.devices().unwrap(), [UUID]);
        assert!(leases.lock("GPU-2").is_ok());
        // Without the file that is locked the process in the lease still counts.
        drop(device);
        std::fs::remove_file(place.path().join("leases/GPU-1.lock")).unwrap();
        assert!(matches!(leases.lock(UUID), Err(LeaseError::Owned { .. })));
    }

    #[test]
    fn a_lease_is_abandoned_once_its_process_ended_even_if_its_number_is_used_again() {
        let place = tempfile::tempdir().unwrap();
        let leases = LeaseDirectory(place.path().to_owned());
        let own = ProcessIdentity::own().unwrap();
        let ended = ProcessIdentity { started_ticks: own.started_ticks - 1, ..own };
        let abandoned = lease(ended);
        leases.lock(UUID).unwrap().write(&abandoned).unwrap();
        let device = leases.lock(UUID).unwrap();
        assert_eq!(device.former().unwrap(), Some(Former::Lease(abandoned)));
        device.clear().unwrap();
        assert_eq!(device.former().unwrap(), None);
        std::fs::write(place.path().join("GPU-1.json"), "{\"uuid\": 1").unwrap();
        assert!(matches!(device.former().unwrap(), Some(Former::Unreadable(_))));
    }
}
