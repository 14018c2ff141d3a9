//! Finished policies and the worlds they were made for, from a run folder or a file.

use std::path::{Path, PathBuf};

use homeostat_rl::Policy;

use crate::config::{Settings, UserLayers};
use crate::run_folder::file_error;
use crate::{Candidate, Error, Result, RunFolder, Worlds};

/// The policies of a run folder, or the one of a file, with the worlds of their run. A file
/// that lies in no run is played with default settings.
pub fn load_candidates(path: &Path) -> Result<(Vec<Candidate>, Worlds)> {
    let files = if path.is_file() {
        vec![path.to_owned()]
    } else {
        RunFolder::open(path)?.policy_files()?
    };
    let candidates = files.iter().map(|file| load_candidate(file)).collect::<Result<Vec<_>>>()?;
    let Some(first) = candidates.first() else {
        return Err(Error::NoPolicies { path: path.to_owned() });
    };
    let worlds = match settings_of(path) {
        Some(config) if config.is_file() => {
            let text = std::fs::read_to_string(&config).map_err(file_error("read", &config))?;
            let file = Some((config.display().to_string(), text));
            Settings::resolve(&UserLayers { file, ..UserLayers::default() })?.validate()?.worlds
        }
        _ => Worlds::default_for(first.policy.env())?,
    };
    Ok((candidates, worlds))
}

/// The policy of one file, without the worlds it was made for.
pub fn load_candidate(file: &Path) -> Result<Candidate> {
    let bytes = std::fs::read(file).map_err(file_error("read", file))?;
    let policy = Policy::from_bytes(&bytes)
        .map_err(|error| Error::BadPolicy { path: file.to_owned(), reason: error.to_string() })?;
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let number = name.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    Ok(Candidate { name, agent: number.unwrap_or(0), policy })
}

/// The settings beside a run folder's policies.
fn settings_of(path: &Path) -> Option<PathBuf> {
    let folder = if path.is_file() { path.parent()?.parent()? } else { path };
    Some(folder.join("config.toml"))
}
