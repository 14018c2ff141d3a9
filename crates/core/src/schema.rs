//! Schemas of learned policies: features and actions with names, units, ranges and meaning.
//!
//! An environment defines the schemas of its agents, a policy file carries them, and a program
//! that serves the file checks them against what it can provide. So a policy is tied to what it
//! observes and controls, not to the environment it was trained in.

use serde::{Deserialize, Serialize};

/// The features that a policy reads at each decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSchema {
    /// `domain/name-vN`. Any change in the meaning of a feature increases N.
    pub id: String,
    /// Each number, in order.
    pub features: Vec<FeatureField>,
    /// Number of consecutive observations that the policy reads at once: 1 without history.
    pub history: usize,
}

/// One feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureField {
    /// Its name.
    pub name: String,
    /// What it is and how it is normalised.
    pub meaning: String,
    /// Unit before normalisation; empty for a dimensionless number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// Smallest value; none for no limit.
    pub low: Option<f32>,
    /// Largest value; none for no limit.
    pub high: Option<f32>,
    /// Whether it is computed from the other members of a team.
    #[serde(default, skip_serializing_if = "is_false")]
    pub needs_team: bool,
}

/// The actions that a policy chooses from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionSchema {
    /// `domain/name-vN`. Any change in the meaning of an action increases N.
    pub id: String,
    /// The components of an action, in order.
    pub parts: Vec<ActionField>,
}

/// One component of an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionField {
    /// Its name.
    pub name: String,
    /// What it does.
    pub meaning: String,
    /// The label of each choice, in order; empty for a continuous component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// The range of one dimension of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoundField {
    /// The dimension, with its unit.
    pub dimension: String,
    /// Smallest amount.
    pub low: u64,
    /// Largest amount.
    pub high: u64,
}

/// The contract between a policy and what it controls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlSchema {
    /// The features it reads.
    pub features: FeatureSchema,
    /// The actions it chooses from.
    pub action: ActionSchema,
    /// The bounds during training; empty for policies that control no resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<BoundField>,
}

impl FeatureSchema {
    /// Whether a feature is computed from the other members of a team.
    pub fn needs_team(&self) -> bool {
        self.features.iter().any(|feature| feature.needs_team)
    }
}

impl FeatureField {
    /// A dimensionless feature with a range.
    pub fn new(name: &str, meaning: &str, (low, high): (f32, f32)) -> Self {
        Self {
            name: name.to_owned(),
            meaning: meaning.to_owned(),
            unit: String::new(),
            low: Some(low),
            high: Some(high),
            needs_team: false,
        }
    }

    /// The same, computed from a figure in this unit.
    #[must_use]
    pub fn with_unit(self, unit: &str) -> Self {
        Self { unit: unit.to_owned(), ..self }
    }
}

impl ActionField {
    /// A component that chooses among labelled alternatives.
    pub fn choice(name: &str, meaning: &str, choices: impl IntoIterator<Item = String>) -> Self {
        Self {
            name: name.to_owned(),
            meaning: meaning.to_owned(),
            choices: choices.into_iter().collect(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
