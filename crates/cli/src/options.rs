//! Options that several commands share.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use homeostat_lab::{Error, Settings, UserLayers};

/// The largest number that a settings file can hold.
const MOST: u64 = i64::MAX as u64;

/// Where settings come from.
#[derive(Args, Clone, Default)]
pub(crate) struct SettingOptions {
    /// ppo, dqn, ddpg, q-learning or reinforce.
    #[arg(value_name = "ALGORITHM")]
    pub(crate) algorithm: Option<String>,
    /// The environment; `homeostat env list` shows all.
    #[arg(long, value_name = "ID")]
    pub(crate) env: Option<String>,
    /// Everything random follows from it.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=MOST))]
    pub(crate) seed: Option<u64>,
    /// Steps of each agent.
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=MOST))]
    pub(crate) steps: Option<u64>,
    /// Independent learners, trained at once.
    #[arg(long)]
    pub(crate) agents: Option<u32>,
    /// Settings by name; `homeostat config presets` lists them.
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Worker threads; results do not depend on it.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// A file of settings in TOML; `homeostat config default` prints a commented one.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Any setting, as `ppo.clip=0.1`; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl SettingOptions {
    /// All layers, resolved.
    pub(crate) fn resolve(&self) -> anyhow::Result<Settings> {
        let file = match &self.config {
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| Error::Unreadable {
                    source_text: format!("file {}", path.display()),
                    reason: error.to_string(),
                })?;
                Some((path.display().to_string(), text))
            }
            None => None,
        };
        let mut flags = Vec::new();
        let named = [
            ("run.algorithm", &self.algorithm, "ALGORITHM"),
            ("run.env", &self.env, "--env"),
            ("run.seed", &self.seed.map(|seed| seed.to_string()), "--seed"),
            ("run.steps", &self.steps.map(|steps| steps.to_string()), "--steps"),
            ("run.agents", &self.agents.map(|agents| agents.to_string()), "--agents"),
            ("run.preset", &self.preset, "--preset"),
            ("run.threads", &self.threads.map(|threads| threads.to_string()), "--threads"),
        ];
        for (key, value, flag) in named {
            if let Some(value) = value {
                flags.push((key.to_owned(), value.clone(), flag.to_owned()));
            }
        }
        for pair in &self.set {
            let (key, value) = pair.split_once('=').ok_or_else(|| Error::Unreadable {
                source_text: format!("flag --set {pair}"),
                reason: "it is not of the form KEY=VALUE, for example ppo.clip=0.1".to_owned(),
            })?;
            flags.push((
                key.trim().to_owned(),
                value.trim().to_owned(),
                format!("--set {}", key.trim()),
            ));
        }
        Ok(Settings::resolve(&UserLayers { file, environment: environment()?, flags })?)
    }
}

/// Settings of the environment. `HOMEOSTAT_TEST_*` steers this project's own tests and
/// is none.
fn environment() -> anyhow::Result<Vec<(String, String)>> {
    let mut settings = Vec::new();
    for (name, value) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if !name.starts_with("HOMEOSTAT_") || name.starts_with("HOMEOSTAT_TEST_") {
            continue;
        }
        let value = value.into_string().map_err(|_| Error::Unreadable {
            source_text: format!("environment {name}"),
            reason: "its value is not text".to_owned(),
        })?;
        settings.push((name, value));
    }
    Ok(settings)
}

/// Uses this many threads for the whole process.
pub(crate) fn use_threads(threads: Option<usize>) -> anyhow::Result<()> {
    if let Some(threads) = threads {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .context("failed to start threads")?;
    }
    Ok(())
}
