//! The stages of an agent, and who acts in each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where an agent is in its life cycle (Alg. 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Nothing has been observed yet.
    Initialised,
    /// The fallback acts, and its decisions train the agent.
    Offline,
    /// The agent acts and explores while it trains.
    Online,
    /// The agent's policy acts and does not explore.
    Serving,
}

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Actor {
    /// HPA and VPA.
    Fallback,
    /// The agent, exploring.
    Learner,
    /// The agent's policy, as evaluated.
    Policy,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Self; 4] = [Self::Initialised, Self::Offline, Self::Online, Self::Serving];

    /// Who acts in it.
    pub fn actor(self) -> Actor {
        match self {
            Self::Initialised | Self::Offline => Actor::Fallback,
            Self::Online => Actor::Learner,
            Self::Serving => Actor::Policy,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initialised => "initialised",
            Self::Offline => "offline",
            Self::Online => "online",
            Self::Serving => "serving",
        })
    }
}
