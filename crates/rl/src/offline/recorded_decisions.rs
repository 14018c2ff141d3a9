//! Recorded decisions as an environment to learn from.

use homeostat_core::ControlSchema;
use homeostat_core::trajectory::End;
use homeostat_env::{Card, EnvSpec, Space};

use super::{OfflineDataset, Recorded};
use crate::{Error, Recording, Result};

/// The environment that recorded decisions of this schema are of: features with their ranges, and
/// actions from -1 to 1. An error for actions that are choices.
pub fn recorded_env(schema: &ControlSchema) -> Result<EnvSpec> {
    let ControlSchema { features, action, .. } = schema;
    let id = "recorded/decisions-v1";
    if let Some(choice) = action.parts.iter().find(|part| !part.choices.is_empty()) {
        return Err(Error::Unsuited {
            algorithm: "offline learning",
            env: id.to_owned(),
            reason: format!(
                "it learns continuous actions, and `{}` of {} is a choice: record decisions as \
                 pods/ratios-v1, as `homeostat sim --record` does",
                choice.name, action.id
            ),
        });
    }
    let end = |end: Option<f32>, open: f32| end.unwrap_or(open);
    let low = features.features.iter().map(|field| end(field.low, f32::NEG_INFINITY));
    let high = features.features.iter().map(|field| end(field.high, f32::INFINITY));
    let repeated = |ends: Vec<f32>| ends.repeat(features.history.max(1));
    Ok(EnvSpec {
        id: id.parse().expect("the id is well-formed"),
        observation: Space::Box { low: repeated(low.collect()), high: repeated(high.collect()) },
        action: Space::uniform_box(action.parts.len(), -1.0, 1.0),
        time_limit: None,
        card: Card {
            summary: "Recorded decisions.",
            observation: Vec::new(),
            action: Vec::new(),
            reward: "as recorded",
            termination: "as recorded",
            source: "a trajectory store",
        },
        control: Some(schema.clone().into()),
    })
}

impl OfflineDataset {
    /// The transitions of these trajectories; the last one of an open trajectory is left out, since
    /// what followed is not known.
    pub fn from_recordings<'a>(
        spec: &EnvSpec,
        recordings: impl IntoIterator<Item = &'a Recording>,
    ) -> Result<Self> {
        let mut data = Self::new(spec)?;
        for recording in recordings {
            for (index, transition) in recording.transitions.iter().enumerate() {
                let following = recording.transitions.get(index + 1);
                let (next_obs, terminated) = match (following, &recording.end) {
                    (Some(next), _) => (&next.observation, false),
                    (None, Some((how, last))) => (last, *how == End::Terminated),
                    (None, None) => break,
                };
                data.push(&Recorded {
                    obs: &transition.observation,
                    action: &transition.action,
                    reward: transition.reward,
                    next_obs,
                    terminated,
                })?;
            }
        }
        Ok(data)
    }
}
