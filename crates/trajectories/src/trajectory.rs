//! The values of a store.

use std::fmt;

use homeostat_core::trajectory::End;
use serde::{Deserialize, Serialize};

/// The number of a trajectory. Later trajectories have larger numbers; no number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrajectoryId(pub(crate) i64);

/// A trajectory without its transitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trajectory {
    /// Its number.
    pub id: TrajectoryId,
    /// What was controlled.
    pub workload: String,
    /// The policy that acted.
    pub policy: String,
    /// The ids of its schemas: features and actions.
    pub features: String,
    /// See `features`.
    pub action: String,
    /// When it was recorded, in milliseconds since 1970.
    pub recorded_ms: i64,
    /// Number of transitions.
    pub transitions: u64,
    /// Sum of their rewards.
    pub reward_sum: f64,
    /// How it ended. None while it is open; one that its process did not end stays open.
    pub end: Option<End>,
}

impl Trajectory {
    /// The mean reward of a transition; none without transitions. Trajectories of different lengths
    /// are compared by it.
    pub fn mean_reward(&self) -> Option<f64> {
        (self.transitions > 0).then(|| self.reward_sum / self.transitions as f64)
    }
}

impl From<i64> for TrajectoryId {
    fn from(number: i64) -> Self {
        Self(number)
    }
}

impl fmt::Display for TrajectoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
