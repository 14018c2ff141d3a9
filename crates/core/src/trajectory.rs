//! Recorded decisions, as stores keep them and as lines of JSON exchange them.

use serde::{Deserialize, Serialize};

use crate::ControlSchema;

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

/// One line of JSON. A trajectory begins with where it comes from, goes on with its transitions, and
/// ends with its end; an open one has none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// A trajectory begins.
    Trajectory(Origin),
    /// The next transition of the trajectory that began last.
    Transition(Transition),
    /// It ends.
    End {
        /// How.
        how: End,
        /// What was observed after the last transition.
        observation: Vec<f32>,
    },
}
