//! Where the value of a setting came from.

use std::fmt;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The embedded reference.
    Default,
    /// A preset.
    Preset(String),
    /// The method of a team.
    Method(String),
    /// A file.
    File(String),
    /// An environment variable.
    Environment(String),
    /// The command line.
    Flag(String),
    /// A keyword of a call, for example from Python.
    Keyword(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset(name) => write!(f, "preset {name}"),
            Self::Method(name) => write!(f, "method {name}"),
            Self::File(path) => write!(f, "file {path}"),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
            Self::Keyword(keyword) => write!(f, "keyword {keyword}"),
        }
    }
}
