//! Recorded transitions in memory, and the minibatches drawn from them.

use homeostat_core::Stream;
use homeostat_env::{EnvSpec, Space};

use crate::{ActionCodec, AgentContext, Encoder, Error, Result};

/// Transitions of one environment, with features encoded and actions scaled to [-1, 1].
#[derive(Debug, Clone)]
pub struct OfflineDataset {
    encoder: Encoder,
    codec: ActionCodec,
    observation_len: usize,
    feature_len: usize,
    action_len: usize,
    features: Vec<f32>,
    actions: Vec<f32>,
    rewards: Vec<f32>,
    next_features: Vec<f32>,
    continues: Vec<f32>,
}

/// One recorded transition. As in a replay buffer, only `terminated` sets the value of the next
/// state to zero; a truncated transition has its true next observation.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// The observation that was acted on.
    pub obs: &'a [f32],
    /// The action, in the units of the environment.
    pub action: &'a [f32],
    /// The reward.
    pub reward: f64,
    /// The observation after the step.
    pub next_obs: &'a [f32],
    /// The task ended.
    pub terminated: bool,
}

impl OfflineDataset {
    /// An empty dataset for an environment whose actions are a finite box.
    pub fn new(spec: &EnvSpec) -> Result<Self> {
        let action_len = finite_box("offline learning", spec)?;
        let encoder = Encoder::new(&spec.observation);
        Ok(Self {
            observation_len: spec.observation.len(),
            feature_len: encoder.features(),
            action_len,
            encoder,
            codec: ActionCodec::new(&spec.action),
            features: Vec::new(),
            actions: Vec::new(),
            rewards: Vec::new(),
            next_features: Vec::new(),
            continues: Vec::new(),
        })
    }

    /// Number of transitions.
    pub fn len(&self) -> usize {
        self.rewards.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rewards.is_empty()
    }

    /// Numbers of an encoded observation.
    pub fn features(&self) -> usize {
        self.feature_len
    }

    /// Appends a transition. An error for numbers that are not finite or of the wrong count, which
    /// leaves the dataset as it was.
    pub fn push(&mut self, recorded: &Recorded<'_>) -> Result<()> {
        let Recorded { obs, action, reward, next_obs, terminated } = *recorded;
        let refuse = |what: String| Err(Error::Dataset { transition: self.len(), what });
        for (what, numbers, expected) in [
            ("observation", obs, self.observation_len),
            ("action", action, self.action_len),
            ("next observation", next_obs, self.observation_len),
        ] {
            if numbers.len() != expected {
                return refuse(format!("its {what} has {} numbers, not {expected}", numbers.len()));
            }
            if let Some(number) = numbers.iter().find(|number| !number.is_finite()) {
                return refuse(format!("its {what} is not finite ({number})"));
            }
        }
        if !(reward as f32).is_finite() {
            return refuse(format!("its reward is not finite ({reward})"));
        }
        for (rows, obs) in [(&mut self.features, obs), (&mut self.next_features, next_obs)] {
            let start = rows.len();
            rows.resize(start + self.feature_len, 0.0);
            self.encoder.encode(obs, &mut rows[start..]);
        }
        let start = self.actions.len();
        self.actions.extend_from_slice(action);
        self.codec.shrink(&mut self.actions[start..]);
        self.rewards.push(reward as f32);
        self.continues.push(if terminated { 0.0 } else { 1.0 });
        Ok(())
    }

    /// An error for an empty dataset, and for one of another environment.
    pub(crate) fn require_filled(&self, context: &AgentContext) -> Result<()> {
        let what = if self.is_empty() {
            "there is none: record some first"
        } else if self.encoder != Encoder::new(&context.spec.observation)
            || self.codec != ActionCodec::new(&context.spec.action)
        {
            "its spaces are not those of the agent"
        } else {
            return Ok(());
        };
        Err(Error::Dataset { transition: 0, what: what.to_owned() })
    }

    /// Mean and standard deviation of each feature; a constant feature has deviation 1.
    pub(crate) fn feature_scale(&self) -> (Vec<f32>, Vec<f32>) {
        let rows = self.len().max(1) as f64;
        let (mut mean, mut square) = (vec![0.0; self.feature_len], vec![0.0; self.feature_len]);
        for row in self.features.chunks_exact(self.feature_len) {
            for (k, value) in row.iter().enumerate() {
                mean[k] += f64::from(*value) / rows;
                square[k] += f64::from(*value) * f64::from(*value) / rows;
            }
        }
        let deviation = mean.iter().zip(&square).map(|(mean, square)| {
            let variance = square - mean * mean;
            if variance > 1e-9 { variance.sqrt() as f32 } else { 1.0 }
        });
        let deviation = deviation.collect();
        (mean.iter().map(|mean| *mean as f32).collect(), deviation)
    }
}

/// The number of action dimensions; an error for actions that are not a finite box.
pub(crate) fn finite_box(algorithm: &'static str, spec: &EnvSpec) -> Result<usize> {
    let refuse =
        |reason: String| Err(Error::Unsuited { algorithm, env: spec.id.to_string(), reason });
    let Space::Box { low, high } = &spec.action else {
        return refuse(format!("its actions are {}, and it needs a box", spec.action));
    };
    if low.iter().chain(high).any(|end| end.is_infinite()) {
        return refuse(
            "its action box has an infinite end, and it scales to finite ones".to_owned(),
        );
    }
    Ok(low.len())
}

/// A minibatch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    pub(crate) rows: usize,
    pub(crate) states: Vec<f32>,
    pub(crate) actions: Vec<f32>,
    pub(crate) rewards: Vec<f32>,
    pub(crate) next_states: Vec<f32>,
    /// 0 where the task ended, else 1.
    pub(crate) continues: Vec<f32>,
}

impl Batch {
    /// Draws `rows` transitions with replacement.
    pub(crate) fn draw(&mut self, data: &OfflineDataset, rows: usize, rng: &mut Stream) {
        let (features, actions) = (data.feature_len, data.action_len);
        self.rows = rows;
        self.states.clear();
        self.actions.clear();
        self.rewards.clear();
        self.next_states.clear();
        self.continues.clear();
        for _ in 0..rows {
            let k = rng.below(data.len());
            self.states.extend_from_slice(&data.features[k * features..][..features]);
            self.actions.extend_from_slice(&data.actions[k * actions..][..actions]);
            self.rewards.push(data.rewards[k]);
            self.next_states.extend_from_slice(&data.next_features[k * features..][..features]);
            self.continues.push(data.continues[k]);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let parts =
            [&self.states, &self.actions, &self.rewards, &self.next_states, &self.continues];
        parts.iter().map(|part| part.capacity() * size_of::<f32>()).sum()
    }
}

/// Writes each left row followed by its right row.
pub(crate) fn join_rows(out: &mut Vec<f32>, rows: usize, left: &[f32], right: &[f32]) {
    out.clear();
    let widths = (left.len() / rows, right.len() / rows);
    for (left, right) in left.chunks_exact(widths.0).zip(right.chunks_exact(widths.1)) {
        out.extend_from_slice(left);
        out.extend_from_slice(right);
    }
}

/// Refills `noise` with `count` standard normal draws.
pub(crate) fn draw_normals(noise: &mut Vec<f32>, count: usize, rng: &mut Stream) {
    noise.clear();
    noise.extend(std::iter::repeat_with(|| rng.normal() as f32).take(count));
}
