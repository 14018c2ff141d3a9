//! Deep Q-network (Mnih et al., 2015), double by default (van Hasselt et al.,
//! 2016): the online network chooses the next action, the target network values it.

use std::sync::Arc;

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_env::{Action, Space};
use homeostat_nn::{
    Activation, AdamConfig, Init, InputRows, MlpShape, Network, argmax, clip_factor,
};
use serde::{Deserialize, Serialize};

use crate::algorithm::{
    MAX_ENVS, MAX_REMEMBERED, MAX_ROWS, at_least_one, count, learning_rate, open_unit, positive,
    suited_to, unit,
};
use crate::conditioning::Inputs;
use crate::learner::Guard;
use crate::optimized_network::OptimizedNetwork;
use crate::replay::{PairReplay, Transition};
use crate::schedule::decayed;
use crate::workspace::RowScalars;
use crate::{
    AgentContext, ConditionedLearner, EmbeddingTable, Encoder, Error, Learned, Learner, Outcome,
    Policy, Result, Schedule, Workspace,
};

/// Settings of DQN. The defaults are those of Stable-Baselines3 where both have one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DqnConfig {
    /// Environments that the agent acts in at once.
    pub num_envs: usize,
    /// Capacity of the replay buffer, in transitions.
    pub replay_capacity: usize,
    /// Steps before the first update.
    pub learning_starts: u64,
    /// Steps between two updates.
    pub train_every: u64,
    /// Gradient steps in one update.
    pub gradient_steps: usize,
    /// Transitions in one gradient.
    pub minibatch: usize,
    /// Gradient steps after which the target network becomes a copy of the online one.
    pub target_update_every: u64,
    /// Rate of soft target updates (Polyak averaging) in each gradient step, instead of hard
    /// copies; off by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_update: Option<f32>,
    /// Whether the online network chooses the action that the target network values.
    pub double: bool,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Activation after each hidden layer.
    pub activation: Activation,
    /// Learning rate.
    pub learning_rate: f32,
    /// How the learning rate changes over the budget.
    pub schedule: Schedule,
    /// Discount factor.
    pub gamma: f32,
    /// Probability of a random action at the start.
    pub epsilon_start: f32,
    /// Probability of a random action after the decay.
    pub epsilon_end: f32,
    /// Steps over which it decays linearly.
    pub epsilon_decay_steps: u64,
    /// Largest norm of the gradient; off if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_grad_norm: Option<f32>,
}

impl Default for DqnConfig {
    fn default() -> Self {
        Self {
            num_envs: 1,
            replay_capacity: 100_000,
            learning_starts: 1_000,
            train_every: 4,
            gradient_steps: 1,
            minibatch: 64,
            target_update_every: 500,
            soft_update: None,
            double: true,
            hidden: vec![64, 64],
            activation: Activation::Relu,
            learning_rate: 5e-4,
            schedule: Schedule::Constant,
            gamma: 0.99,
            epsilon_start: 1.0,
            epsilon_end: 0.05,
            epsilon_decay_steps: 10_000,
            max_grad_norm: Some(10.0),
        }
    }
}

impl DqnConfig {
    /// An error for settings outside their range.
    pub fn validate(&self) -> Result<()> {
        count("dqn.num_envs", self.num_envs, MAX_ENVS)?;
        count("dqn.replay_capacity", self.replay_capacity, MAX_REMEMBERED)?;
        at_least_one("dqn.train_every", self.train_every as usize)?;
        at_least_one("dqn.gradient_steps", self.gradient_steps)?;
        count("dqn.minibatch", self.minibatch, MAX_ROWS)?;
        at_least_one("dqn.target_update_every", self.target_update_every as usize)?;
        for width in &self.hidden {
            at_least_one("dqn.hidden", *width)?;
        }
        learning_rate("dqn.learning_rate", self.learning_rate)?;
        open_unit("dqn.gamma", self.gamma)?;
        unit("dqn.epsilon_start", self.epsilon_start)?;
        unit("dqn.epsilon_end", self.epsilon_end)?;
        self.soft_update.map_or(Ok(()), |rate| unit("dqn.soft_update", rate))?;
        self.max_grad_norm.map_or(Ok(()), |norm| positive("dqn.max_grad_norm", norm))
    }

    /// Probability of a random action after this many steps.
    fn epsilon(&self, step: u64) -> f64 {
        decayed(self.epsilon_start, self.epsilon_end, self.epsilon_decay_steps, step)
    }
}

/// One DQN agent.
pub struct Dqn {
    config: DqnConfig,
    guard: Guard,
    inputs: Inputs,
    choices: usize,
    online: OptimizedNetwork,
    target: Network,
    replay: PairReplay,
    /// What is kept of each environment's step that is being played, and its action.
    pending: Vec<(Vec<f32>, f32)>,
    next_kept: Vec<f32>,
    gradient_steps: u64,
    next_update: u64,
    rng: Stream,
    context: AgentContext,
}

impl Dqn {
    /// An agent with new weights.
    pub fn new(config: &DqnConfig, context: &AgentContext) -> Result<Self> {
        let inputs = Inputs::new(Encoder::new(&context.spec.observation), None);
        Self::build(config, context, inputs)
    }

    /// An agent whose networks read the embedding of a pair. It remembers `replay_capacity` transitions of each pair,
    /// and learns from those of the pairs that it acts in.
    pub fn conditioned(
        config: &DqnConfig,
        context: &AgentContext,
        table: EmbeddingTable,
    ) -> Result<Self> {
        let inputs = Inputs::new(Encoder::new(&context.spec.observation), Some(table));
        Self::build(config, context, inputs)
    }

    fn build(config: &DqnConfig, context: &AgentContext, inputs: Inputs) -> Result<Self> {
        config.validate()?;
        let Space::Discrete(choices) = context.spec.action else {
            return Err(Error::Unsuited {
                algorithm: "dqn",
                env: context.spec.id.to_string(),
                reason: format!(
                    "its actions are {}, dqn needs one discrete choice; try {}",
                    context.spec.action,
                    suited_to(&context.spec.action)
                ),
            });
        };
        let widths = [&[inputs.width()], config.hidden.as_slice(), &[choices]].concat();
        let shape = Arc::new(MlpShape::new(&widths, config.activation, Activation::Identity)?);
        let online =
            Network::new(shape, 0, Init::UniformFanIn, &mut context.seeds.stream("weights"));
        Ok(Self {
            guard: Guard::new(context.agent),
            target: online.clone(),
            online: OptimizedNetwork::new("q", online, AdamConfig::default()),
            replay: PairReplay::new(&inputs, config.replay_capacity, 1),
            pending: vec![(vec![0.0; inputs.kept()], 0.0); config.num_envs],
            next_kept: vec![0.0; inputs.kept()],
            gradient_steps: 0,
            next_update: config.learning_starts,
            rng: context.seeds.stream("explore"),
            context: context.clone(),
            config: config.clone(),
            inputs,
            choices,
        })
    }

    /// One step on the Huber loss between Q(s, a) and `r + gamma Q_target(s', a')`.
    fn gradient_step(&mut self, learning_rate: f32, workspace: &mut Workspace) -> Result<f64> {
        let Workspace {
            kernel,
            actor,
            target,
            features,
            next_features,
            kept,
            rows,
            d_output,
            d_input,
            actor_grads,
            per_row,
            ..
        } = workspace;
        let kernel = *kernel;
        let (count, len) = (self.config.minibatch, self.inputs.kept());

        // Draw the rows: `per_row` is the choice, `target` starts as the reward and
        // `value` says whether there is a value beyond.
        let (kept, next_kept) = kept.at_least(2 * count * len).split_at_mut(count * len);
        rows.clear();
        per_row.clear();
        for k in 0..count {
            let drawn = self.replay.draw(self.inputs.present_pairs(), &mut self.rng);
            kept[k * len..][..len].copy_from_slice(drawn.features);
            next_kept[k * len..][..len].copy_from_slice(drawn.next_features);
            per_row.push(drawn.action[0]);
            let value = if drawn.terminated { 0.0 } else { 1.0 };
            rows.push(RowScalars { target: drawn.reward, value, ..Default::default() });
        }

        let x = self.inputs.read(kept, features);
        let next = self.inputs.read(next_kept, next_features);

        // Value of the next state.
        let chosen_by_online =
            self.config.double.then(|| self.online.forward(kernel, next, count, actor));
        let values = self.target.forward(kernel, next, count, target);
        for (k, (row, values)) in rows.iter_mut().zip(values.chunks_exact(self.choices)).enumerate()
        {
            let choice = match chosen_by_online {
                Some(online) => argmax(&online[k * self.choices..][..self.choices]),
                None => argmax(values),
            };
            row.target += self.config.gamma * row.value * values[choice];
        }

        let q = self.online.forward(kernel, x, count, actor);
        let d = d_output.at_least(count * self.choices);
        d.fill(0.0);
        let mut loss = 0.0;
        for (k, (row, choice)) in rows.iter().zip(per_row.iter()).enumerate() {
            let cell = k * self.choices + *choice as usize;
            let (row_loss, slope) = huber(q[cell] - row.target);
            loss += f64::from(row_loss);
            d[cell] = slope / count as f32;
        }
        // Not the slopes: that of an infinite error is one, like any other's.
        self.guard.number("q loss", loss as f32)?;
        let grads = actor_grads.at_least(self.online.network.params().len());
        let width = self.inputs.width();
        let wants_gradient = self.inputs.wants_gradient();
        let d_x = d_input.at_least(if wants_gradient { count * width } else { 0 });
        let d_read = wants_gradient.then_some(&mut *d_x);
        let input = InputRows { x, rows: count };
        self.online.backward_to_inputs(kernel, input, actor, d, grads, d_read);
        self.inputs.add_gradient(kept, d_x, width);
        self.inputs.end_minibatch();
        let factor =
            self.config.max_grad_norm.map_or(1.0, |norm| clip_factor(kernel, norm, &[grads]));
        self.online.step(kernel, learning_rate, factor, grads, &self.guard)?;
        self.gradient_steps += 1;
        if let Some(rate) = self.config.soft_update {
            self.target.follow(kernel, rate, &self.online.network);
        } else if self.gradient_steps.is_multiple_of(self.config.target_update_every) {
            self.target.params_mut().copy_from_slice(self.online.network.params());
        }
        Ok(loss / count as f64)
    }
}

impl Dqn {
    fn policy_for(&self, pair: usize) -> Policy {
        let online = self.inputs.unconditioned(&self.online.network, pair);
        Policy::values(&self.context.spec, "dqn", online)
    }
}

/// Huber's loss of one error: squared up to one, straight beyond. And its slope.
fn huber(error: f32) -> (f32, f32) {
    let size = error.abs();
    let loss = if size <= 1.0 { 0.5 * error * error } else { size - 0.5 };
    (loss, error.clamp(-1.0, 1.0))
}

impl Learner for Dqn {
    fn num_envs(&self) -> usize {
        self.config.num_envs
    }

    fn act(
        &mut self,
        obs: &[f32],
        actions: &mut [Action],
        workspace: &mut Workspace,
    ) -> Result<()> {
        self.guard.finite("observation", obs)?;
        let epsilon = self.config.epsilon(self.guard.step);
        let rows = obs.chunks_exact(self.context.spec.observation.len());
        let Workspace { kernel, actor, features, .. } = workspace;
        let pending = self.pending.iter_mut().enumerate();
        for ((obs, action), (env, (kept, pending))) in rows.zip(actions).zip(pending) {
            self.inputs.keep(env, obs, kept);
            let choice = if self.rng.uniform() < epsilon {
                self.rng.below(self.choices)
            } else {
                let x = self.inputs.read(kept, features);
                let values = self.online.forward(*kernel, x, 1, actor);
                self.guard.finite("q values", values)?;
                argmax(values)
            };
            *pending = choice as f32;
            *action = Action::Discrete(choice);
        }
        Ok(())
    }

    fn record(&mut self, env: usize, outcome: Outcome<'_>, _: &mut Workspace) -> Result<()> {
        let reward = self.guard.take_in(&outcome, 1.0)?;
        self.inputs.keep(env, outcome.next_obs, &mut self.next_kept);
        let (features, action) = &self.pending[env];
        let transition = Transition {
            features,
            action: &[*action],
            reward,
            next_features: &self.next_kept,
            terminated: outcome.terminated,
        };
        self.replay.push(self.inputs.pair_of(env), transition);
        Ok(())
    }

    fn learn(&mut self, progress: f64, workspace: &mut Workspace) -> Result<Option<Learned>> {
        if self.guard.step < self.next_update || !self.replay.has_any(self.inputs.present_pairs()) {
            return Ok(None);
        }
        self.next_update = self.guard.step + self.config.train_every;
        let learning_rate = self.config.schedule.at(self.config.learning_rate, progress);
        let mut loss = 0.0;
        for _ in 0..self.config.gradient_steps {
            loss += self.gradient_step(learning_rate, workspace)?;
        }
        self.guard.finite("q weights", self.online.network.params())?;
        Ok(Some(Learned {
            figures: vec![
                ("q_loss", loss / self.config.gradient_steps as f64),
                ("epsilon", self.config.epsilon(self.guard.step)),
            ],
        }))
    }

    fn policy(&self) -> Policy {
        self.policy_for(self.inputs.present_pairs()[0])
    }

    fn value(&self, obs: &[f32], workspace: &mut Workspace) -> f32 {
        let kept = workspace.kept.at_least(self.inputs.kept());
        self.inputs.keep(0, obs, kept);
        let x = self.inputs.read(kept, &mut workspace.features);
        let values = self.online.forward(workspace.kernel, x, 1, &mut workspace.actor);
        values[argmax(values)]
    }

    fn bytes(&self) -> usize {
        self.online.bytes() + self.target.bytes() + self.replay.bytes()
    }
}

impl ConditionedLearner for Dqn {
    fn embeddings(&self) -> &EmbeddingTable {
        self.inputs.expect_table()
    }

    fn embeddings_mut(&mut self) -> &mut EmbeddingTable {
        self.inputs.expect_table_mut()
    }

    fn policy_of(&self, pair: usize) -> Policy {
        self.policy_for(pair)
    }

    fn save_networks(&self, out: &mut Snapshot) {
        self.online.network.save("online", out);
    }

    fn load_networks(&mut self, from: &Snapshot) -> Result<()> {
        self.online.network.load("online", from)?;
        Ok(self.target.load("online", from)?)
    }
}

impl Persist for Dqn {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.online.save(&format!("{name}/online"), out);
        self.target.save(&format!("{name}/target"), out);
        self.replay.save(&format!("{name}/replay"), out);
        self.rng.save(&format!("{name}/rng"), out);
        out.put_u64(
            &format!("{name}/clock"),
            [self.guard.step, self.gradient_steps, self.next_update],
        );
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.online.load(&format!("{name}/online"), from)?;
        self.target.load(&format!("{name}/target"), from)?;
        self.replay.load(&format!("{name}/replay"), from)?;
        self.rng.load(&format!("{name}/rng"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 3)?;
        [self.guard.step, self.gradient_steps, self.next_update] = [clock[0], clock[1], clock[2]];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hubers_loss_has_the_slope_it_says(error in -4.0f32..4.0) {
            // The slope itself is continuous: even around the bend a small step errs little.
            const STEP: f32 = 1e-2;
            let expect = (huber(error + STEP).0 - huber(error - STEP).0) / (2.0 * STEP);
            let (_, got) = huber(error);
            prop_assert!((got - expect).abs() < STEP, "{got}, expected {expect}");
        }
    }

    #[test]
    fn hubers_loss_is_squared_within_one_and_straight_beyond() {
        assert_eq!([-0.5, 1.0, 3.0].map(|error| huber(error).0), [0.125, 0.5, 2.5]);
        assert_eq!([-3.0, -0.5, 0.0, 3.0].map(|error| huber(error).1), [-1.0, -0.5, 0.0, 1.0]);
        assert!(huber(f32::INFINITY).0.is_infinite() && huber(f32::NAN).0.is_nan());
    }

    #[test]
    fn exploration_decays_in_a_straight_line_and_stays() {
        let config = DqnConfig {
            epsilon_start: 1.0,
            epsilon_end: 0.5,
            epsilon_decay_steps: 10,
            ..DqnConfig::default()
        };
        assert_eq!([0, 5, 10, 99].map(|step| config.epsilon(step)), [1.0, 0.75, 0.5, 0.5]);
    }
}
