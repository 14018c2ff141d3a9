//! What keys have used today, in a small file, so that a restart does not forget it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::gateway::Gateway;

/// How often what has changed is written: no more than this is forgotten after `kill -9`.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// What keys have used in a day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsedBudgets {
    /// Days since 1970, in UTC.
    pub day: u64,
    /// Tokens by the SHA-256 of the key, in hexadecimal digits.
    pub tokens: BTreeMap<String, u64>,
}

impl UsedBudgets {
    /// None if there is no file.
    pub fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("read budget_file {}", path.display()))?,
        };
        let hint = || {
            let path = path.display();
            format!("read budget_file {path}: remove it to begin the day with unused budgets")
        };
        serde_json::from_str(&text).map(Some).with_context(hint)
    }

    /// Replaces the file as a whole: it is the old or the new one at any moment, also after a power failure.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(serde_json::to_string(self)?.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            std::fs::File::open(folder)?.sync_all()
        };
        write().with_context(|| format!("write budget_file {}", path.display()))
    }
}

/// Where the budgets of a gateway are kept.
#[derive(Debug)]
pub(crate) struct BudgetFile {
    path: PathBuf,
    writing: Mutex<()>,
}

impl BudgetFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, writing: Mutex::new(()) }
    }

    /// Writes what is used now. The budgets are read after the turn to write has come: a write that was
    /// begun earlier and ends later brings no old figures back.
    pub(crate) fn save(&self, gateway: &Gateway) -> anyhow::Result<UsedBudgets> {
        let _turn = self.writing.lock().expect("no code panics while it holds this lock");
        let used = gateway.admission.used_budgets();
        used.write(&self.path)?;
        Ok(used)
    }
}

/// Writes what has changed, for ever.
pub(crate) async fn keep_saving(gateway: Arc<Gateway>, file: Arc<BudgetFile>) {
    let mut saved = gateway.admission.used_budgets();
    let mut is_failing = false;
    loop {
        tokio::time::sleep(SAVE_EVERY).await;
        if gateway.admission.used_budgets() == saved {
            continue;
        }
        let (file, of) = (file.clone(), gateway.clone());
        let written = tokio::task::spawn_blocking(move || file.save(&of)).await;
        match written.map_err(anyhow::Error::from).and_then(|written| written) {
            Ok(used) => (saved, is_failing) = (used, false),
            Err(error) if !std::mem::replace(&mut is_failing, true) => {
                tracing::error!("budgets would be forgotten by a restart: {error:#}");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written_and_a_broken_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("budgets.json");
        assert_eq!(UsedBudgets::read(&path).unwrap(), None);
        let used = UsedBudgets { day: 20_000, tokens: [("ab".to_owned(), 7)].into() };
        used.write(&path).unwrap();
        let more = UsedBudgets { day: 20_001, ..used };
        more.write(&path).unwrap();
        assert_eq!(UsedBudgets::read(&path).unwrap(), Some(more));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "no file is left over");
        std::fs::write(&path, "{\"day\":").unwrap();
        let error = format!("{:#}", UsedBudgets::read(&path).unwrap_err());
        assert!(error.contains("budgets.json") && error.contains("remove it"), "{error}");
    }
}
