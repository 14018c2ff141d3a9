//! A run on disk. Every file is either complete or not there: new content goes to
//! a temporary file, is flushed to the disk, and then takes the old one's place.
//!
//! ```text
//! run.lock               held by the process that trains here
//! config.toml            every setting, as resolved
//! run.json               version, kernel, seed
//! metrics.jsonl          one line per agent and round; follows from the seed
//! timing.jsonl           wall-clock figures of the same rounds
//! checkpoints/           the last two states
//! policies/agent-0.policy
//! summary.json           how it ended
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::checkpoint::Checkpoint;
use crate::{Error, Result};

/// Held by the process that works in a directory.
const LOCK: &str = "run.lock";

/// How many checkpoints are kept: the last, and the one before in case it is damaged.
const KEPT_CHECKPOINTS: usize = 2;

/// The directory of one run.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    /// Held, and thereby locked, while this process trains here.
    _lock: Option<File>,
}

/// A checkpoint that could be read, and what was wrong with newer ones.
#[derive(Debug)]
pub struct FoundCheckpoint {
    /// What it holds.
    pub checkpoint: Checkpoint,
    /// Its file.
    pub path: PathBuf,
    /// Newer files that were refused, with the reason.
    pub refused: Vec<String>,
}

impl RunDirectory {
    /// A new directory for training, locked for this process. It must not exist yet, or be empty.
    pub fn create(path: &Path) -> Result<Self> {
        let this = Self::create_plain(path).map_err(|error| match error {
            Error::RunExists { path, .. } => {
                Error::RunExists { path, otherwise: ", or resume it with --resume" }
            }
            other => other,
        })?;
        this.create_subdirectories()?;
        Ok(this)
    }

    /// The directories that training needs.
    pub fn create_subdirectories(&self) -> Result<()> {
        for name in ["checkpoints", "policies"] {
            let directory = self.file(name);
            fs::create_dir_all(&directory).map_err(file_error("create", &directory))?;
        }
        Ok(())
    }

    /// [`RunDirectory::create`] without the directories that only training needs.
    pub fn create_plain(path: &Path) -> Result<Self> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(file_error("create", parent))?;
        }
        // The process that makes the directory owns it: of two processes only one succeeds.
        match fs::create_dir(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
                if !is_empty {
                    return Err(Error::RunExists { path: path.to_owned(), otherwise: "" });
                }
            }
            Err(error) => return Err(file_error("create", path)(error)),
        }
        Ok(Self { path: path.to_owned(), _lock: Some(lock(path)?) })
    }

    /// A directory that this process may go on with: one that holds the file `mark`, a new one, or
    /// one whose owner was killed before it had written anything. Locked for this process.
    pub fn open_or_create(path: &Path, mark: &str) -> Result<Self> {
        fs::create_dir_all(path).map_err(file_error("create", path))?;
        let entries = fs::read_dir(path).map_err(file_error("read", path))?;
        let is_begun = |name: &str| name == LOCK || name.ends_with(".partial");
        let is_strange =
            entries.flatten().any(|entry| !entry.file_name().to_str().is_some_and(is_begun));
        if is_strange && !path.join(mark).is_file() {
            return Err(Error::ForeignDirectory { path: path.to_owned(), mark: mark.to_owned() });
        }
        Ok(Self { path: path.to_owned(), _lock: Some(lock(path)?) })
    }

    /// An existing run, to look at.
    pub fn open(path: &Path) -> Result<Self> {
        let this = Self { path: path.to_owned(), _lock: None };
        if this.file("config.toml").is_file() {
            return Ok(this);
        }
        let reason = if path.exists() { "it has no config.toml" } else { "it does not exist" };
        Err(Error::NotARun { path: path.to_owned(), reason: reason.to_owned() })
    }

    /// An existing run, to train on: locked for this process.
    pub fn open_locked(path: &Path) -> Result<Self> {
        let this = Self::open(path)?;
        Ok(Self { _lock: Some(lock(path)?), ..this })
    }

    /// The first of `parent/name`, `parent/name-2`, ... that does not exist yet.
    pub fn next_free(parent: &Path, name: &str) -> PathBuf {
        let numbered = (2u32..).map(|number| parent.join(format!("{name}-{number}")));
        let mut candidates = std::iter::once(parent.join(name)).chain(numbered);
        candidates.find(|path| !path.exists()).expect("numbers do not run out before the disk does")
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file inside.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file as a whole or not at all.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        write_atomically(&self.file(name), content)
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.file(name);
        fs::read(&path).map_err(file_error("read", &path))
    }

    /// Writes a checkpoint and forgets all but the last two.
    pub fn write_checkpoint(&self, step: u64, bytes: &[u8]) -> Result<()> {
        self.write(&format!("checkpoints/step-{step:020}.safetensors"), bytes)?;
        let files = self.checkpoint_files()?;
        for old in files.iter().rev().skip(KEPT_CHECKPOINTS) {
            fs::remove_file(old).map_err(file_error("remove", old))?;
        }
        Ok(())
    }

    /// The newest checkpoint that is whole, or nothing if none was written yet.
    /// Damaged ones are passed over, and named.
    pub fn newest_checkpoint(&self) -> Result<Option<FoundCheckpoint>> {
        let mut refused = Vec::new();
        for path in self.checkpoint_files()?.into_iter().rev() {
            let bytes = fs::read(&path).map_err(file_error("read", &path))?;
            match Checkpoint::from_bytes(&bytes) {
                Ok(checkpoint) => return Ok(Some(FoundCheckpoint { checkpoint, path, refused })),
                Err(error) => refused.push(format!("{}: {error}", path.display())),
            }
        }
        if refused.is_empty() {
            return Ok(None);
        }
        Err(Error::NoCheckpoint { path: self.path.clone(), reason: refused.join("; ") })
    }

    /// Policy files, by agent.
    pub fn policy_files(&self) -> Result<Vec<PathBuf>> {
        let mut files = list(&self.file("policies"), "policy")?;
        // agent-10 comes after agent-9.
        files.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        Ok(files)
    }

    fn checkpoint_files(&self) -> Result<Vec<PathBuf>> {
        let directory = self.file("checkpoints");
        if !directory.is_dir() {
            return Err(Error::NoCheckpoint {
                path: self.path.clone(),
                reason: "its directory checkpoints/ is missing; restore it, or start a new run"
                    .to_owned(),
            });
        }
        let mut files = list(&directory, "safetensors")?;
        files.sort();
        Ok(files)
    }
}

fn list(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).map_err(file_error("read", directory))?;
    let paths = entries
        .map(|entry| entry.map(|entry| entry.path()).map_err(file_error("read", directory)))
        .collect::<Result<Vec<_>>>()?;
    let is_wanted = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    Ok(paths.into_iter().filter(is_wanted).collect())
}

/// The lock of a run; it goes with the process, however that ends.
fn lock(directory: &Path) -> Result<File> {
    let path = directory.join(LOCK);
    let file = File::create(&path).map_err(file_error("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::RunLocked { path: directory.to_owned() }),
        Err(TryLockError::Error(error)) => Err(file_error("lock", &path)(error)),
    }
}

/// Writes beside, flushes, renames, and flushes the directory.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = path.with_extension("partial");
    let attempt = || -> std::io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    };
    attempt().map_err(file_error("write", path))
}

/// Makes an [`Error::File`] of what the system said about `path`.
pub fn file_error(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::File { action, path: path.clone(), reason: error.to_string() }
}
