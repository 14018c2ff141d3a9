//! A run on disk. Every file is either complete or not there: new content goes to
//! a temporary file, is flushed to the disk, and then takes the old one's place.
//!
//! ```text
//! config.toml            every setting, as resolved
//! run.json               version, kernel, seed
//! metrics.jsonl          one line per agent and round; follows from the seed
//! timing.jsonl           wall-clock figures of the same rounds
//! checkpoints/           the last two states
//! policies/agent-0.policy
//! summary.json           how it ended
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::trainer::checkpoint_step;
use crate::{Error, Result};

/// How many checkpoints are kept: the last, and the one before in case it is damaged.
const KEPT_CHECKPOINTS: usize = 2;

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
}

/// A checkpoint that could be read, and what was wrong with newer ones.
#[derive(Debug)]
pub struct FoundCheckpoint {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its file.
    pub path: PathBuf,
    /// Steps of each agent at that time.
    pub step: u64,
    /// Newer files that were refused, with the reason.
    pub refused: Vec<String>,
}

impl RunFolder {
    /// A new folder. It must not exist yet, or be empty.
    pub fn create(path: &Path) -> Result<Self> {
        let is_used = path.exists()
            && fs::read_dir(path).map(|mut entries| entries.next().is_some()).unwrap_or(true);
        if is_used {
            return Err(Error::File {
                action: "create",
                path: path.to_owned(),
                reason: "it exists already; give another --run-dir, or go on with --resume"
                    .to_owned(),
            });
        }
        let this = Self { path: path.to_owned() };
        for folder in [this.path.clone(), this.path.join("checkpoints"), this.path.join("policies")]
        {
            fs::create_dir_all(&folder).map_err(file_error("create", &folder))?;
        }
        Ok(this)
    }

    /// An existing run.
    pub fn open(path: &Path) -> Result<Self> {
        let this = Self { path: path.to_owned() };
        if this.file("config.toml").is_file() {
            return Ok(this);
        }
        let reason = if path.exists() { "it has no config.toml" } else { "it does not exist" };
        Err(Error::NotARun { path: path.to_owned(), reason: reason.to_owned() })
    }

    /// The first of `parent/name`, `parent/name-2`, ... that does not exist yet.
    pub fn next_free(parent: &Path, name: &str) -> PathBuf {
        let numbered = (2u32..).map(|number| parent.join(format!("{name}-{number}")));
        let mut candidates = std::iter::once(parent.join(name)).chain(numbered);
        candidates.find(|path| !path.exists()).expect("numbers do not run out before the disk does")
    }

    /// The folder itself.
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
        self.write(&format!("checkpoints/step-{step:012}.safetensors"), bytes)?;
        let files = self.checkpoint_files()?;
        for old in files.iter().rev().skip(KEPT_CHECKPOINTS) {
            fs::remove_file(old).map_err(file_error("remove", old))?;
        }
        Ok(())
    }

    /// The newest checkpoint that is whole. Damaged ones are passed over, and named.
    pub fn newest_checkpoint(&self) -> Result<FoundCheckpoint> {
        let mut refused = Vec::new();
        for path in self.checkpoint_files()?.into_iter().rev() {
            let bytes = fs::read(&path).map_err(file_error("read", &path))?;
            match checkpoint_step(&bytes) {
                Ok(step) => return Ok(FoundCheckpoint { bytes, path, step, refused }),
                Err(error) => refused.push(format!("{}: {error}", path.display())),
            }
        }
        let reason =
            if refused.is_empty() { "there is none".to_owned() } else { refused.join("; ") };
        Err(Error::NoCheckpoint { path: self.path.clone(), reason })
    }

    /// Policy files, by agent.
    pub fn policy_files(&self) -> Result<Vec<PathBuf>> {
        let mut files = list(&self.file("policies"), "policy")?;
        // agent-10 comes after agent-9.
        files.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        Ok(files)
    }

    fn checkpoint_files(&self) -> Result<Vec<PathBuf>> {
        let mut files = list(&self.file("checkpoints"), "safetensors")?;
        files.sort();
        Ok(files)
    }
}

fn list(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(file_error("read", folder))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect())
}

/// Writes beside, flushes, renames, and flushes the folder.
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

pub(crate) fn file_error(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::File { action, path: path.clone(), reason: error.to_string() }
}
