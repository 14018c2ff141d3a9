//! Checks the order of reset and step.

use crate::{EnvId, Error, Result};

/// Where an environment is between reset and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Never reset.
    New,
    /// In an episode.
    Running,
    /// After an episode.
    Ended,
}

impl Phase {
    /// An error unless an episode is running.
    pub fn require_running(self, id: &EnvId) -> Result<()> {
        match self {
            Self::Running => Ok(()),
            Self::New => Err(Error::StepBeforeReset { env: id.to_string() }),
            Self::Ended => Err(Error::StepAfterEnd { env: id.to_string() }),
        }
    }

    /// The number that a snapshot stores.
    pub fn to_number(self) -> u64 {
        match self {
            Self::New => 0,
            Self::Running => 1,
            Self::Ended => 2,
        }
    }

    /// The phase of a snapshot's number.
    pub fn from_number(number: u64) -> Self {
        match number {
            0 => Self::New,
            1 => Self::Running,
            _ => Self::Ended,
        }
    }
}
