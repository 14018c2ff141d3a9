//! What a user gives: a file, environment variables, flags and keywords.

use std::path::Path;

use crate::{Error, Result};

/// What the user gave, from the weakest layer to the strongest.
#[derive(Debug, Clone, Default)]
pub struct UserLayers {
    /// A configuration file.
    pub file: Option<SettingsFile>,
    /// Environment variables that start with `HOMEOSTAT_`.
    pub environment: Vec<EnvironmentVariable>,
    /// Flags of the command line.
    pub flags: Vec<Assignment>,
    /// Keywords of a call, for example from Python.
    pub keywords: Vec<Assignment>,
}

/// A configuration file that has been read.
#[derive(Debug, Clone)]
pub struct SettingsFile {
    /// Its name in error messages.
    pub name: String,
    /// Its TOML text.
    pub text: String,
}

/// An environment variable.
#[derive(Debug, Clone)]
pub struct EnvironmentVariable {
    /// Its whole name, with `HOMEOSTAT_`.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// One setting as a flag or a keyword gave it.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// `section.name`.
    pub key: String,
    /// The value, as TOML or as plain text.
    pub text: String,
    /// The flag or keyword as the user wrote it.
    pub origin: String,
}

impl Assignment {
    /// `key` has the value `text`, because the user wrote `origin`.
    pub fn new(key: impl Into<String>, text: impl Into<String>, origin: impl Into<String>) -> Self {
        Self { key: key.into(), text: text.into(), origin: origin.into() }
    }

    /// The same as `--set key=text`.
    pub fn set(key: impl Into<String>, text: impl Into<String>) -> Self {
        let key = key.into();
        let origin = format!("--set {key}");
        Self::new(key, text, origin)
    }
}

/// Where a coordinator's token may come from; it is a secret and no setting.
pub const TOKEN_VARIABLE: &str = "HOMEOSTAT_COORDINATOR_TOKEN";

impl UserLayers {
    /// Flags alone.
    pub fn of_flags(flags: impl IntoIterator<Item = Assignment>) -> Self {
        Self { flags: flags.into_iter().collect(), ..Self::default() }
    }

    /// A file alone, whose text has been read.
    pub fn of_file(name: impl Into<String>, text: impl Into<String>) -> Self {
        let file = SettingsFile { name: name.into(), text: text.into() };
        Self { file: Some(file), ..Self::default() }
    }

    /// The same with a file of settings.
    pub fn with_file(self, path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::Unreadable {
            source_text: format!("file {}", path.display()),
            reason: match error.kind() {
                std::io::ErrorKind::InvalidData => {
                    "it is not text; settings are TOML, as `homeostat config default` prints them"
                        .to_owned()
                }
                _ => error.to_string(),
            },
        })?;
        let file = SettingsFile { name: path.display().to_string(), text };
        Ok(Self { file: Some(file), ..self })
    }

    /// The same with the settings of this process's environment. Variables that start with
    /// `HOMEOSTAT_TEST_` control this project's own tests and are not settings.
    pub fn with_environment(self) -> Result<Self> {
        let mut environment = Vec::new();
        for (name, value) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            let is_other = name.starts_with("HOMEOSTAT_TEST_") || name == TOKEN_VARIABLE;
            if !name.starts_with("HOMEOSTAT_") || is_other {
                continue;
            }
            let value = value.into_string().map_err(|_| Error::Unreadable {
                source_text: format!("environment {name}"),
                reason: "its value is not text".to_owned(),
            })?;
            environment.push(EnvironmentVariable { name, value });
        }
        Ok(Self { environment, ..self })
    }
}
