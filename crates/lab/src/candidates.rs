//! Finished policies and the environments they were trained in, from a run directory or a file.

use std::path::{Path, PathBuf};

use homeostat_core::{Bounds, Bytes};
use homeostat_decide::{AllocationBounds, PodInterface};
use homeostat_rl::Policy;

use crate::config::{Settings, UserLayers};
use crate::run_directory::file_error;
use crate::{EnvFactory, Environments, Error, Result, RunDirectory};

/// A finished policy.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Where it came from.
    pub name: String,
    /// The number of the agent that learnt it, for simulators that give each agent its own
    /// task.
    pub agent: u32,
    /// The policy.
    pub policy: Policy,
}

/// The policies of a run directory, or the one of a file.
pub fn load_candidates(path: &Path) -> Result<Vec<Candidate>> {
    let files = if path.is_file() {
        vec![path.to_owned()]
    } else {
        RunDirectory::open(path)?.policy_files()?
    };
    let candidates = files.iter().map(|file| load_candidate(file)).collect::<Result<Vec<_>>>()?;
    if candidates.is_empty() {
        return Err(Error::NoPolicies { path: path.to_owned() });
    }
    Ok(candidates)
}

/// The environments that the policies of a run directory or a file were trained in. A file that
/// lies in no run gets default settings.
pub fn env_factory_of(path: &Path, environments: &Environments) -> Result<EnvFactory> {
    match settings_of(path) {
        Some(config) if config.is_file() => {
            let text = std::fs::read_to_string(&config).map_err(file_error("read", &config))?;
            let layers = UserLayers::of_file(config.display().to_string(), text);
            Ok(Settings::resolve(environments, &layers)?.validate()?.env_factory)
        }
        _ => EnvFactory::with_defaults(environments),
    }
}

/// The policy of one file.
pub fn load_candidate(file: &Path) -> Result<Candidate> {
    let bytes = std::fs::read(file).map_err(file_error("read", file))?;
    let policy = Policy::from_bytes(&bytes).map_err(|error| {
        let is_checkpoint =
            file.parent().and_then(Path::file_name).is_some_and(|name| name == "checkpoints");
        let reason = match is_checkpoint {
            _ if bytes.is_empty() => "file is damaged: it is empty".to_owned(),
            true => {
                "it is a checkpoint; give the run directory, or a file of its policies/".to_owned()
            }
            false => error.to_string(),
        };
        Error::BadPolicy { path: file.to_owned(), reason }
    })?;
    let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let number = name.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    Ok(Candidate { name, agent: number.unwrap_or(0), policy })
}

/// The programs that serve a policy, by what its schemas say: all of `sim`, `replay` and `operator`,
/// or none.
pub fn places_that_serve(policy: &Policy) -> Vec<&'static str> {
    // Whether schemas are served does not depend on the bounds.
    let replicas = Bounds::try_new(1, 2).expect("in order");
    let memory = Bounds::try_new(Bytes::from_mib(1), Bytes::from_mib(2)).expect("in order");
    let bounds = AllocationBounds::with_dissertation_cpu(replicas, memory);
    match PodInterface::for_schema(policy.schema(), bounds) {
        Err(_) => Vec::new(),
        Ok(_) => vec!["sim", "replay", "operator"],
    }
}

fn settings_of(path: &Path) -> Option<PathBuf> {
    let directory = if path.is_file() { path.parent()?.parent()? } else { path };
    Some(directory.join("config.toml"))
}
