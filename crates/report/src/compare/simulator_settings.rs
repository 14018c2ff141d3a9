//! The simulator that a run was played or trained in, as its `config.toml` says.

use std::path::Path;

use homeostat_lab::RunDirectory;
use toml::{Table, Value};

/// A simulator with the settings that a run had.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimulatorSettings {
    /// The first part of the environment's id, which is also the name of its section; empty where
    /// the file cannot be read.
    pub(crate) prefix: String,
    pub(crate) section: Table,
}

impl SimulatorSettings {
    /// Reads them of a run directory.
    pub(crate) fn of_run(path: &Path) -> Self {
        let text = RunDirectory::open(path).and_then(|directory| directory.read("config.toml"));
        let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Self::of_config(&text.unwrap_or_default())
    }

    fn of_config(text: &str) -> Self {
        let config: Table = text.parse().unwrap_or_default();
        let env = config.get("run").and_then(|run| run.get("env")).and_then(Value::as_str);
        let Some((prefix, _)) = env.and_then(|env| env.split_once('/')) else {
            return Self::default();
        };
        let section = config.get(prefix).and_then(Value::as_table).cloned();
        Self { prefix: prefix.to_owned(), section: section.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_a_run_names_the_section() {
        let text = "[run]\nenv = \"queue/mmc-v1\"\n\n[queue]\nservers = 3\n\n[ppo]\nclip = 0.2\n";
        let found = SimulatorSettings::of_config(text);
        assert_eq!((found.prefix.as_str(), found.section.len()), ("queue", 1));
        assert_eq!(SimulatorSettings::of_config("broken").prefix, "");
    }
}
