//! Files that are whole at any moment: a checkpoint of training, and the policy.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use homeostat_core::Snapshot;
use homeostat_nn::{StateFile, decode, encode};
use homeostat_rl::OfflineLearner;
use serde_json::Value;

const KIND: &str = "homeostat-offline-training/1";

/// Writes a file beside its place and moves it there, so that a reader finds the old or the new one.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let named = || format!("cannot write {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(named)?;
    file.write_all(bytes).with_context(named)?;
    file.as_file().sync_all().with_context(named)?;
    file.persist(path).with_context(named)?;
    Ok(())
}

/// The checkpoint of the training that writes this policy.
pub(crate) fn path_beside(policy: &Path) -> PathBuf {
    let mut name = policy.file_name().unwrap_or_default().to_owned();
    name.push(".training");
    policy.with_file_name(name)
}

/// Saves the state of a training with these settings.
pub(crate) fn save(
    path: &Path,
    settings: &Value,
    learner: &dyn OfflineLearner,
) -> anyhow::Result<()> {
    let mut arrays = Snapshot::default();
    learner.save("learner", &mut arrays);
    let file = StateFile {
        kind: KIND.to_owned(),
        header: settings.clone(),
        arrays,
        ..StateFile::default()
    };
    write_whole(path, &encode(&file))
}

/// Restores a training, if there is a checkpoint of these settings. False without one.
pub(crate) fn restore(
    path: &Path,
    settings: &Value,
    learner: &mut dyn OfflineLearner,
) -> anyhow::Result<bool> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let hint = || format!("{} cannot be continued: delete it to begin again", path.display());
    let file = decode(&bytes, KIND).with_context(hint)?;
    if file.header != *settings {
        return Ok(false);
    }
    learner.load("learner", &file.arrays).with_context(hint)?;
    Ok(true)
}
