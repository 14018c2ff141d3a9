//! TD3+BC (Fujimoto and Gu, 2021): TD3, whose actor also stays near the recorded actions.

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_nn::{AdamConfig, InputRows, Network};
use serde::{Deserialize, Serialize};

use super::OfflineLearner;
use super::dataset::{Batch, OfflineDataset, draw_normals, finite_box, join_rows};
use super::twin_critic::{TwinCritic, bounded_perceptron};
use crate::algorithm::{
    MAX_ROWS, at_least_one, count, learning_rate, not_negative, open_unit, positive, unit,
};
use crate::learner::Guard;
use crate::optimized_network::OptimizedNetwork;
use crate::{AgentContext, Encoder, Learned, Policy, Result, Workspace};

/// Settings of TD3+BC; the defaults are the paper's, with smaller networks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Td3BcConfig {
    /// Transitions in one gradient.
    pub minibatch: usize,
    /// Widths of the hidden layers of actor and critics.
    pub hidden: Vec<usize>,
    /// Learning rate of actor and critics.
    pub learning_rate: f32,
    /// Discount factor.
    pub gamma: f32,
    /// Rate of soft target updates (Polyak averaging).
    pub soft_update: f32,
    /// Standard deviation of the noise on the target's actions, in units of [-1, 1].
    pub target_noise: f32,
    /// Largest such noise.
    pub target_noise_clip: f32,
    /// Critic steps for each step of the actor.
    pub actor_every: u64,
    /// Weight of the value against the distance from the recorded action. Zero clones the
    /// recorded behaviour.
    pub alpha: f32,
}

impl Default for Td3BcConfig {
    fn default() -> Self {
        Self {
            minibatch: 256,
            hidden: vec![64, 64],
            learning_rate: 3e-4,
            gamma: 0.99,
            soft_update: 5e-3,
            target_noise: 0.2,
            target_noise_clip: 0.5,
            actor_every: 2,
            alpha: 2.5,
        }
    }
}

impl Td3BcConfig {
    /// An error for settings outside their range.
    pub fn validate(&self) -> Result<()> {
        count("td3-bc.minibatch", self.minibatch, MAX_ROWS)?;
        self.hidden.iter().try_for_each(|width| at_least_one("td3-bc.hidden", *width))?;
        learning_rate("td3-bc.learning_rate", self.learning_rate)?;
        open_unit("td3-bc.gamma", self.gamma)?;
        unit("td3-bc.soft_update", self.soft_update)?;
        not_negative("td3-bc.target_noise", self.target_noise)?;
        positive("td3-bc.target_noise_clip", self.target_noise_clip)?;
        at_least_one("td3-bc.actor_every", self.actor_every as usize)?;
        not_negative("td3-bc.alpha", self.alpha)
    }
}

/// One TD3+BC agent. It standardises features by the dataset's mean and deviation, and its policy
/// has them in the weights of the first layer.
pub struct Td3Bc {
    config: Td3BcConfig,
    guard: Guard,
    actor: OptimizedNetwork,
    actor_target: Network,
    critic: TwinCritic,
    /// Mean and deviation of each feature, once a dataset is known.
    scale: Option<(Vec<f32>, Vec<f32>)>,
    rng: Stream,
    pub(super) batch: Batch,
    pub(super) noise: Vec<f32>,
    rows: Rows,
    context: AgentContext,
}

/// Scratch rows of an update.
#[derive(Default)]
struct Rows {
    x: Vec<f32>,
    actions: Vec<f32>,
    values: [Vec<f32>; 2],
    targets: Vec<f32>,
}

impl Td3Bc {
    /// An agent with new weights.
    pub fn new(config: &Td3BcConfig, context: &AgentContext) -> Result<Self> {
        config.validate()?;
        let action_len = finite_box("td3-bc", &context.spec)?;
        let features = Encoder::new(&context.spec.observation).features();
        let mut weights = context.seeds.stream("weights");
        let actor = bounded_perceptron(features, &config.hidden, action_len, &mut weights)?;
        Ok(Self {
            guard: Guard::new(context.agent),
            actor_target: actor.clone(),
            actor: OptimizedNetwork::new("actor", actor, AdamConfig::default()),
            critic: TwinCritic::new(features + action_len, &config.hidden, &mut weights)?,
            scale: None,
            rng: context.seeds.stream("learn"),
            batch: Batch::default(),
            noise: Vec::new(),
            rows: Rows::default(),
            config: config.clone(),
            context: context.clone(),
        })
    }

    /// One step on `self.batch`, with a normal draw in `self.noise` for every number of an action.
    pub(super) fn update(&mut self, workspace: &mut Workspace) -> Result<Learned> {
        let Self { config, batch, rows: scratch, guard, .. } = self;
        let (kernel, rows) = (workspace.kernel, batch.rows);
        let Rows { x, actions, values, targets } = scratch;

        // Critics: squared error to r + gamma min Q'(s', pi'(s') + noise).
        let next =
            self.actor_target.forward(kernel, &batch.next_states, rows, &mut workspace.actor);
        actions.clear();
        actions.extend(next.iter().zip(&self.noise).map(|(action, noise)| {
            let limit = config.target_noise_clip;
            (action + (config.target_noise * noise).clamp(-limit, limit)).clamp(-1.0, 1.0)
        }));
        join_rows(x, rows, &batch.next_states, actions);
        self.critic.target_values(x, rows, values, workspace);
        targets.clear();
        let next_values = values[0].iter().zip(&values[1]).map(|(one, other)| one.min(*other));
        let outcomes = batch.rewards.iter().zip(&batch.continues).zip(next_values);
        targets.extend(
            outcomes.map(|((reward, continues), next)| reward + config.gamma * continues * next),
        );
        join_rows(x, rows, &batch.states, &batch.actions);
        let rate = config.learning_rate;
        let critic_loss = self.critic.regress(x, targets, rate, guard, workspace)?;
        self.critic.require_finite(guard)?;

        // Actor, less often: climb lambda Q(s, pi(s)) and stay near a; lambda makes the weight of
        // the two independent of the size of rewards.
        let mut figures = vec![("critic_loss", critic_loss)];
        if guard.step.is_multiple_of(config.actor_every) {
            let chosen = self.actor.forward(kernel, &batch.states, rows, &mut workspace.actor);
            actions.clear();
            actions.extend_from_slice(chosen);
            join_rows(x, rows, &batch.states, actions);
            let (value, size) = self.critic.first_values(x, rows, workspace);
            let lambda = config.alpha / size.max(f32::MIN_POSITIVE);
            let factor = -lambda / rows as f32;
            let mut d = std::mem::take(&mut self.noise);
            d.clear();
            d.resize(actions.len(), 0.0);
            self.critic.by_action(x, rows, factor, &mut d, workspace);
            let scale = 1.0 / actions.len() as f32;
            let mut distance = 0.0;
            for ((d, chosen), recorded) in d.iter_mut().zip(actions.iter()).zip(&batch.actions) {
                let error = chosen - recorded;
                distance += f64::from(error * error * scale);
                *d += 2.0 * error * scale;
            }
            guard.finite("actor loss", &d)?;
            let grads = workspace.actor_grads.at_least(self.actor.network.params().len());
            self.actor.backward(
                kernel,
                InputRows { x: &batch.states, rows },
                &mut workspace.actor,
                &d,
                grads,
            );
            self.actor.step(kernel, rate, 1.0, grads, guard)?;
            self.noise = d;
            guard.finite("actor weights", self.actor.network.params())?;
            guard.finite("actor target weights", self.actor_target.params())?;
            self.actor_target.follow(kernel, config.soft_update, &self.actor.network);
            self.critic.follow(kernel, config.soft_update);
            figures.extend([("value", f64::from(value)), ("distance", distance)]);
        }
        Ok(Learned { figures })
    }

    #[cfg(test)]
    pub(super) fn set_steps(&mut self, steps: u64) {
        self.guard.step = steps;
    }

    fn standardise(&mut self) {
        let Some((mean, deviation)) = &self.scale else { return };
        for rows in [&mut self.batch.states, &mut self.batch.next_states] {
            for row in rows.chunks_exact_mut(mean.len()) {
                for ((value, mean), deviation) in row.iter_mut().zip(mean).zip(deviation) {
                    *value = (*value - mean) / deviation;
                }
            }
        }
    }
}

impl OfflineLearner for Td3Bc {
    fn learn(&mut self, data: &OfflineDataset, workspace: &mut Workspace) -> Result<Learned> {
        data.require_filled(&self.context)?;
        if self.scale.is_none() {
            self.scale = Some(data.feature_scale());
        }
        self.guard.step += 1;
        self.batch.draw(data, self.config.minibatch, &mut self.rng);
        self.standardise();
        draw_normals(&mut self.noise, self.batch.actions.len(), &mut self.rng);
        self.update(workspace)
    }

    fn steps(&self) -> u64 {
        self.guard.step
    }

    fn policy(&self) -> Policy {
        let mut actor = self.actor.network.clone();
        if let Some((mean, deviation)) = &self.scale {
            // W ((s - mean) / deviation) + b, as a layer that reads s.
            let (mut weights, mut bias, _) = actor.layer(0);
            for (row, bias) in weights.chunks_exact_mut(mean.len()).zip(&mut bias) {
                for ((weight, mean), deviation) in row.iter_mut().zip(mean).zip(deviation) {
                    *weight /= deviation;
                    *bias -= *weight * mean;
                }
            }
            actor.set_layer(0, &weights, &bias);
        }
        Policy::deterministic(&self.context.spec, "td3-bc", actor)
    }

    fn bytes(&self) -> usize {
        self.actor.bytes() + self.actor_target.bytes() + self.critic.bytes() + self.batch.bytes()
    }
}

impl Persist for Td3Bc {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.actor.save(&format!("{name}/actor"), out);
        self.actor_target.save(&format!("{name}/actor_target"), out);
        self.critic.save(&format!("{name}/critic"), out);
        let (mean, deviation) = self.scale.clone().unwrap_or_default();
        out.put_f32(&format!("{name}/feature_mean"), mean);
        out.put_f32(&format!("{name}/feature_deviation"), deviation);
        self.rng.save(&format!("{name}/rng"), out);
        out.put_u64(&format!("{name}/clock"), [self.guard.step]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.actor.load(&format!("{name}/actor"), from)?;
        self.actor_target.load(&format!("{name}/actor_target"), from)?;
        self.critic.load(&format!("{name}/critic"), from)?;
        let features = Encoder::new(&self.context.spec.observation).features();
        let read = |part: &str| from.f32s(&format!("{name}/{part}"), features).map(<[f32]>::to_vec);
        let is_fresh = from.any_f32s(&format!("{name}/feature_mean"))?.is_empty();
        self.scale = match is_fresh {
            true => None,
            false => Some((read("feature_mean")?, read("feature_deviation")?)),
        };
        self.rng.load(&format!("{name}/rng"), from)?;
        self.guard.step = from.u64s(&format!("{name}/clock"), 1)?[0];
        Ok(())
    }
}
