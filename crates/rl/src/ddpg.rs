//! Deep deterministic policy gradient (Lillicrap et al., 2016), as in Algorithm
//! 3.3 of the FIRM chapter: a critic of state and action, an actor that climbs it,
//! and slow copies of both as targets. Deviation: the text gives FIRM's critic 23
//! inputs, more than its state and action together; ours takes state and action.

use std::sync::Arc;

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_env::{Action, Space};
use homeostat_nn::{Activation, AdamConfig, Init, InputRows, MlpShape, Network};
use serde::{Deserialize, Serialize};

use crate::algorithm::{
    MAX_ENVS, MAX_REMEMBERED, MAX_ROWS, at_least_one, count, learning_rate, not_negative,
    open_unit, positive, suited_to, unit,
};
use crate::conditioning::Inputs;
use crate::learner::Guard;
use crate::noise::{Noise, NoiseConfig};
use crate::optimized_network::OptimizedNetwork;
use crate::replay::{PairReplay, Transition};
use crate::workspace::RowScalars;
use crate::{
    ActionCodec, AgentContext, ConditionedLearner, EmbeddingTable, Encoder, Error, Learned,
    Learner, Outcome, Policy, Result, Workspace,
};

/// Settings of DDPG.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DdpgConfig {
    /// Environments that the agent acts in at once.
    pub num_envs: usize,
    /// Capacity of the replay buffer, in transitions.
    pub replay_capacity: usize,
    /// Steps before the first update; until then actions are random.
    pub learning_starts: u64,
    /// Steps between two updates.
    pub train_every: u64,
    /// Gradient steps in one update.
    pub gradient_steps: usize,
    /// Transitions in one gradient.
    pub minibatch: usize,
    /// Widths of the hidden layers of actor and critic.
    pub hidden: Vec<usize>,
    /// Activation after each hidden layer.
    pub activation: Activation,
    /// Learning rate of the actor.
    pub actor_learning_rate: f32,
    /// Learning rate of the critic.
    pub critic_learning_rate: f32,
    /// Discount factor.
    pub gamma: f32,
    /// Rate of soft target updates (Polyak averaging) in each gradient step.
    pub soft_update: f32,
    /// Exploration noise, in units of the action range [-1, 1].
    pub noise: NoiseConfig,
    /// Factor on the noise at the start.
    pub exploration_start: f32,
    /// What the factor loses with each step, down to `exploration_end`. Deviation:
    /// table 3.3 only names a decay of 1e-6; taking it off the factor is our reading.
    pub exploration_decay: f32,
    /// Factor on the noise at the end.
    pub exploration_end: f32,
    /// Factor on every reward.
    pub reward_scale: f32,
}

impl Default for DdpgConfig {
    fn default() -> Self {
        Self {
            num_envs: 1,
            replay_capacity: 100_000,
            learning_starts: 500,
            train_every: 1,
            gradient_steps: 1,
            minibatch: 64,
            hidden: vec![64, 64],
            activation: Activation::Relu,
            actor_learning_rate: 1e-3,
            critic_learning_rate: 1e-3,
            gamma: 0.98,
            soft_update: 5e-3,
            noise: NoiseConfig::Gaussian { sigma: 0.1 },
            exploration_start: 1.0,
            exploration_decay: 0.0,
            exploration_end: 0.0,
            reward_scale: 1.0,
        }
    }
}

impl DdpgConfig {
    /// An error for settings outside their range.
    pub fn validate(&self) -> Result<()> {
        count("ddpg.num_envs", self.num_envs, MAX_ENVS)?;
        count("ddpg.replay_capacity", self.replay_capacity, MAX_REMEMBERED)?;
        at_least_one("ddpg.train_every", self.train_every as usize)?;
        at_least_one("ddpg.gradient_steps", self.gradient_steps)?;
        count("ddpg.minibatch", self.minibatch, MAX_ROWS)?;
        for width in &self.hidden {
            at_least_one("ddpg.hidden", *width)?;
        }
        learning_rate("ddpg.actor_learning_rate", self.actor_learning_rate)?;
        learning_rate("ddpg.critic_learning_rate", self.critic_learning_rate)?;
        open_unit("ddpg.gamma", self.gamma)?;
        unit("ddpg.soft_update", self.soft_update)?;
        match self.noise {
            NoiseConfig::Gaussian { sigma } => not_negative("ddpg.noise.gaussian.sigma", sigma)?,
            NoiseConfig::OrnsteinUhlenbeck { sigma, theta } => {
                not_negative("ddpg.noise.ornstein-uhlenbeck.sigma", sigma)?;
                unit("ddpg.noise.ornstein-uhlenbeck.theta", theta)?;
            }
        }
        not_negative("ddpg.exploration_start", self.exploration_start)?;
        not_negative("ddpg.exploration_decay", self.exploration_decay)?;
        not_negative("ddpg.exploration_end", self.exploration_end)?;
        positive("ddpg.reward_scale", self.reward_scale)
    }

    /// Factor on the noise after this many steps.
    fn exploration(&self, step: u64) -> f32 {
        let decayed =
            f64::from(self.exploration_start) - f64::from(self.exploration_decay) * step as f64;
        (decayed as f32).max(self.exploration_end)
    }
}

/// One DDPG agent. Actions are kept in [-1, 1] and stretched to the box outside.
pub struct Ddpg {
    config: DdpgConfig,
    guard: Guard,
    inputs: Inputs,
    codec: ActionCodec,
    action_len: usize,
    actor: OptimizedNetwork,
    actor_target: Network,
    critic: OptimizedNetwork,
    critic_target: Network,
    replay: PairReplay,
    envs: Vec<PendingStep>,
    next_kept: Vec<f32>,
    next_update: u64,
    rng: Stream,
    context: AgentContext,
}

/// An environment's step that is being played, and its noise.
struct PendingStep {
    kept: Vec<f32>,
    action: Vec<f32>,
    noise: Noise,
}

impl Ddpg {
    /// An agent with new weights.
    pub fn new(config: &DdpgConfig, context: &AgentContext) -> Result<Self> {
        let inputs = Inputs::new(Encoder::new(&context.spec.observation), None);
        Self::build(config, context, inputs)
    }

    /// An agent whose actor and critic read the embedding of a pair. It remembers `replay_capacity` transitions of
    /// each pair, and learns from those of the pairs that it acts in.
    pub fn conditioned(
        config: &DdpgConfig,
        context: &AgentContext,
        table: EmbeddingTable,
    ) -> Result<Self> {
        let inputs = Inputs::new(Encoder::new(&context.spec.observation), Some(table));
        Self::build(config, context, inputs)
    }

    fn build(config: &DdpgConfig, context: &AgentContext, inputs: Inputs) -> Result<Self> {
        config.validate()?;
        let unsuited = |reason: String| Error::Unsuited {
            algorithm: "ddpg",
            env: context.spec.id.to_string(),
            reason,
        };
        let Space::Box { low, high } = &context.spec.action else {
            return Err(unsuited(format!(
                "its actions are {}, ddpg needs a box; try {}",
                context.spec.action,
                suited_to(&context.spec.action)
            )));
        };
        if low.iter().chain(high).any(|end| end.is_infinite()) {
            return Err(unsuited(
                "its action box has an infinite end, ddpg stretches tanh to finite ones; try ppo"
                    .to_owned(),
            ));
        }
        let (features, action_len) = (inputs.width(), low.len());
        let shape = |inputs: usize, outputs: usize, last| -> Result<_> {
            let widths = [&[inputs], config.hidden.as_slice(), &[outputs]].concat();
            Ok(Arc::new(MlpShape::new(&widths, config.activation, last)?))
        };
        let mut weights = context.seeds.stream("weights");
        let actor = Network::new(
            shape(features, action_len, Activation::Tanh)?,
            0,
            Init::UniformFanIn,
            &mut weights,
        );
        let critic = Network::new(
            shape(features + action_len, 1, Activation::Identity)?,
            0,
            Init::UniformFanIn,
            &mut weights,
        );
        let env = || PendingStep {
            kept: vec![0.0; inputs.kept()],
            action: vec![0.0; action_len],
            noise: Noise::new(config.noise, action_len),
        };
        Ok(Self {
            guard: Guard::new(context.agent),
            actor_target: actor.clone(),
            actor: OptimizedNetwork::new("actor", actor, AdamConfig::default()),
            critic_target: critic.clone(),
            critic: OptimizedNetwork::new("critic", critic, AdamConfig::default()),
            replay: PairReplay::new(&inputs, config.replay_capacity, action_len),
            envs: std::iter::repeat_with(env).take(config.num_envs).collect(),
            next_kept: vec![0.0; inputs.kept()],
            next_update: config.learning_starts.max(1),
            rng: context.seeds.stream("explore"),
            context: context.clone(),
            config: config.clone(),
            codec: ActionCodec::new(&context.spec.action),
            inputs,
            action_len,
        })
    }

    /// One step of critic and actor, and of their targets.
    fn gradient_step(&mut self, workspace: &mut Workspace) -> Result<(f64, f64)> {
        let Workspace {
            kernel,
            actor,
            critic,
            target,
            features,
            next_features,
            kept,
            actor_features,
            actions,
            rows,
            d_output,
            d_input,
            actor_grads,
            critic_grads,
            ..
        } = workspace;
        let kernel = *kernel;
        let (count, len, action_len) =
            (self.config.minibatch, self.inputs.width(), self.action_len);
        let kept_len = self.inputs.kept();
        let width = len + action_len;
        let scale = 1.0 / count as f32;

        // Draw the rows. A row of the critic is the state followed by the action.
        let x = features.at_least(count * width);
        let next = next_features.at_least(count * width);
        let taken = actions.at_least(count * action_len);
        let (kept, next_kept) = kept.at_least(2 * count * kept_len).split_at_mut(count * kept_len);
        rows.clear();
        for k in 0..count {
            let drawn = self.replay.draw(self.inputs.present_pairs(), &mut self.rng);
            kept[k * kept_len..][..kept_len].copy_from_slice(drawn.features);
            next_kept[k * kept_len..][..kept_len].copy_from_slice(drawn.next_features);
            taken[k * action_len..][..action_len].copy_from_slice(drawn.action);
            let value = if drawn.terminated { 0.0 } else { 1.0 };
            rows.push(RowScalars { target: drawn.reward, value, ..Default::default() });
        }

        // Critic: squared error to r + gamma Q'(s', pi'(s')).
        let states = self.inputs.read(next_kept, actor_features);
        place_states(next, states, len, action_len);
        let next_actions = self.actor_target.forward(kernel, states, count, actor);
        place_actions(next, next_actions, len, action_len);
        let next_values = self.critic_target.forward(kernel, next, count, target);
        for (row, value) in rows.iter_mut().zip(next_values) {
            row.target += self.config.gamma * row.value * value;
        }
        let states = self.inputs.read(kept, actor_features);
        place_states(x, states, len, action_len);
        place_actions(x, taken, len, action_len);
        let q = self.critic.forward(kernel, x, count, critic);
        let d = d_output.at_least(count.max(count * action_len));
        let mut critic_loss = 0.0;
        for ((q, row), d) in q.iter().zip(rows.iter()).zip(d.iter_mut()) {
            let error = q - row.target;
            critic_loss += f64::from(error * error * scale);
            *d = 2.0 * error * scale;
        }
        self.guard.finite("critic loss", &d[..count])?;
        let grads = critic_grads.at_least(self.critic.network.params().len());
        let d_x = d_input.at_least(count * width);
        let wants_gradient = self.inputs.wants_gradient();
        let d_read = wants_gradient.then_some(&mut *d_x);
        let input = InputRows { x, rows: count };
        self.critic.backward_to_inputs(kernel, input, critic, d, grads, d_read);
        self.inputs.add_gradient(kept, d_x, width);
        let rate = self.config.critic_learning_rate;
        self.critic.step(kernel, rate, 1.0, grads, &self.guard)?;

        // Actor: climb Q(s, pi(s)); the critic's gradient by the action leads.
        let chosen = self.actor.forward(kernel, states, count, actor);
        place_actions(x, chosen, len, action_len);
        let values = self.critic.forward(kernel, x, count, critic);
        let actor_loss = -f64::from(values.iter().sum::<f32>() * scale);
        d[..count].fill(-scale);
        self.critic.network.shape().backward(
            kernel,
            self.critic.network.params(),
            InputRows { x, rows: count },
            critic,
            d,
            None,
            Some(d_x),
        );
        for (d, row) in d.chunks_exact_mut(action_len).zip(d_x.chunks_exact(width)) {
            d.copy_from_slice(&row[len..]);
        }
        // The gradient by the embedding that the critic read is left out here: it would teach embeddings to promise
        // values instead of describing pairs.
        self.guard.finite("actor loss", &d[..count * action_len])?;
        let grads = actor_grads.at_least(self.actor.network.params().len());
        let d_state = &mut d_x[..count * len];
        let d_read = wants_gradient.then_some(&mut *d_state);
        let input = InputRows { x: states, rows: count };
        self.actor.backward_to_inputs(kernel, input, actor, d, grads, d_read);
        self.inputs.add_gradient(kept, d_state, len);
        self.inputs.end_minibatch();
        let rate = self.config.actor_learning_rate;
        self.actor.step(kernel, rate, 1.0, grads, &self.guard)?;

        self.actor_target.follow(kernel, self.config.soft_update, &self.actor.network);
        self.critic_target.follow(kernel, self.config.soft_update, &self.critic.network);
        Ok((critic_loss, actor_loss))
    }
}

/// Writes each row's state, which its action follows.
fn place_states(rows: &mut [f32], states: &[f32], len: usize, action_len: usize) {
    for (row, state) in rows.chunks_exact_mut(len + action_len).zip(states.chunks_exact(len)) {
        row[..len].copy_from_slice(state);
    }
}

/// Writes each row's action behind its state.
fn place_actions(rows: &mut [f32], actions: &[f32], len: usize, action_len: usize) {
    for (row, action) in
        rows.chunks_exact_mut(len + action_len).zip(actions.chunks_exact(action_len))
    {
        row[len..].copy_from_slice(action);
    }
}

impl Learner for Ddpg {
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
        let factor = self.config.exploration(self.guard.step);
        let is_random = self.guard.step < self.config.learning_starts;
        let rows = obs.chunks_exact(self.context.spec.observation.len());
        let Workspace { kernel, actor, features, actions: stretched, .. } = workspace;
        let stretched = stretched.at_least(self.action_len);
        for ((obs, action), (index, env)) in rows.zip(actions).zip(self.envs.iter_mut().enumerate())
        {
            self.inputs.keep(index, obs, &mut env.kept);
            if is_random {
                env.action.iter_mut().for_each(|value| *value = self.rng.range(-1.0, 1.0) as f32);
            } else {
                let x = self.inputs.read(&env.kept, features);
                let chosen = self.actor.forward(*kernel, x, 1, actor);
                self.guard.finite("policy output", chosen)?;
                let noise = env.noise.next(&mut self.rng);
                for ((value, chosen), noise) in env.action.iter_mut().zip(chosen).zip(noise) {
                    *value = (chosen + factor * noise).clamp(-1.0, 1.0);
                }
            }
            stretched.copy_from_slice(&env.action);
            self.codec.stretch(stretched);
            self.codec.decode(stretched, action);
        }
        Ok(())
    }

    fn record(&mut self, env: usize, outcome: Outcome<'_>, _: &mut Workspace) -> Result<()> {
        let reward = self.guard.take_in(&outcome, self.config.reward_scale)?;
        self.inputs.keep(env, outcome.next_obs, &mut self.next_kept);
        let pair = self.inputs.pair_of(env);
        let env = &mut self.envs[env];
        let transition = Transition {
            features: &env.kept,
            action: &env.action,
            reward,
            next_features: &self.next_kept,
            terminated: outcome.terminated,
        };
        self.replay.push(pair, transition);
        if outcome.terminated || outcome.truncated {
            env.noise.reset();
        }
        Ok(())
    }

    fn learn(&mut self, _: f64, workspace: &mut Workspace) -> Result<Option<Learned>> {
        if self.guard.step < self.next_update || !self.replay.has_any(self.inputs.present_pairs()) {
            return Ok(None);
        }
        self.next_update = self.guard.step + self.config.train_every;
        let (mut critic_loss, mut actor_loss) = (0.0, 0.0);
        for _ in 0..self.config.gradient_steps {
            let (critic, actor) = self.gradient_step(workspace)?;
            critic_loss += critic;
            actor_loss += actor;
        }
        self.guard.finite("actor weights", self.actor.network.params())?;
        self.guard.finite("critic weights", self.critic.network.params())?;
        let steps = self.config.gradient_steps as f64;
        Ok(Some(Learned {
            figures: vec![
                ("critic_loss", critic_loss / steps),
                ("actor_loss", actor_loss / steps),
                ("exploration", f64::from(self.config.exploration(self.guard.step))),
            ],
        }))
    }

    fn policy(&self) -> Policy {
        self.policy_for(self.inputs.present_pairs()[0])
    }

    fn value(&self, obs: &[f32], workspace: &mut Workspace) -> f32 {
        let Workspace { kernel, actor, critic, features, actor_features, kept, .. } = workspace;
        let len = self.inputs.width();
        let kept = kept.at_least(self.inputs.kept());
        self.inputs.keep(0, obs, kept);
        let state = self.inputs.read(kept, actor_features);
        let x = features.at_least(len + self.action_len);
        place_states(x, state, len, self.action_len);
        let chosen = self.actor.forward(*kernel, state, 1, actor);
        place_actions(x, chosen, len, self.action_len);
        self.critic.forward(*kernel, x, 1, critic)[0] / self.config.reward_scale
    }

    fn bytes(&self) -> usize {
        let targets = self.actor_target.bytes() + self.critic_target.bytes();
        self.actor.bytes() + self.critic.bytes() + targets + self.replay.bytes()
    }
}

impl Ddpg {
    fn policy_for(&self, pair: usize) -> Policy {
        let actor = self.inputs.unconditioned(&self.actor.network, pair);
        Policy::deterministic(&self.context.spec, "ddpg", actor)
    }
}

impl ConditionedLearner for Ddpg {
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
        self.actor.network.save("actor", out);
        self.critic.network.save("critic", out);
    }

    fn load_networks(&mut self, from: &Snapshot) -> Result<()> {
        self.actor.network.load("actor", from)?;
        self.critic.network.load("critic", from)?;
        self.actor_target.load("actor", from)?;
        Ok(self.critic_target.load("critic", from)?)
    }
}

impl Persist for Ddpg {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.actor.save(&format!("{name}/actor"), out);
        self.actor_target.save(&format!("{name}/actor_target"), out);
        self.critic.save(&format!("{name}/critic"), out);
        self.critic_target.save(&format!("{name}/critic_target"), out);
        self.replay.save(&format!("{name}/replay"), out);
        for (index, env) in self.envs.iter().enumerate() {
            env.noise.save(&format!("{name}/noise/{index}"), out);
        }
        self.rng.save(&format!("{name}/rng"), out);
        out.put_u64(&format!("{name}/clock"), [self.guard.step, self.next_update]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.actor.load(&format!("{name}/actor"), from)?;
        self.actor_target.load(&format!("{name}/actor_target"), from)?;
        self.critic.load(&format!("{name}/critic"), from)?;
        self.critic_target.load(&format!("{name}/critic_target"), from)?;
        self.replay.load(&format!("{name}/replay"), from)?;
        for (index, env) in self.envs.iter_mut().enumerate() {
            env.noise.load(&format!("{name}/noise/{index}"), from)?;
        }
        self.rng.load(&format!("{name}/rng"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 2)?;
        [self.guard.step, self.next_update] = [clock[0], clock[1]];
        Ok(())
    }
}
