//! The values of a store.

use std::fmt;

use homeostat_core::ControlSchema;
use serde::{Deserialize, Serialize};

/// The number of a trajectory. Later trajectories have larger numbers; no number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrajectoryId(pub(crate) i64);

/// Where a trajectory comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// What was controlled, such as `namespace/name` of an object.
    pub workload: String,
    /// The policy that acted: a name, or the hash of a policy file.
    pub policy: String,
    /// What the numbers of observations and actions mean.
    pub schema: ControlSchema,
    /// When it was recorded, in milliseconds since 1970.
    pub recorded_ms: i64,
}

/// One decision and its reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// When it was decided: milliseconds since 1970, or since a simulation began.
    pub at_ms: i64,
    /// What the policy observed.
    pub observation: Vec<f32>,
    /// What it chose; a choice among labelled alternatives is the number of the alternative.
    pub action: Vec<f32>,
    /// What followed.
    pub reward: f64,
    /// The probability with which the policy chose the action; of a continuous action the density.
    /// None if it is not known.
    pub probability: Option<f64>,
}

/// How a trajectory ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The task was over.
    Terminated,
    /// The task would have gone on.
    Truncated,
}

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
