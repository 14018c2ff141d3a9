//! PPO with a recurrent policy that reads its last action and reward (RL², Duan et al., 2016): it adapts to a new
//! environment by what it remembers, without an embedding and without new weights.
//!
//! A GRU reads observation, last action, last reward and whether an episode has just ended; actor and critic read its
//! hidden state. The memory lasts from episode to episode until [`RecurrentPpo::forget`]. The gradient goes back through
//! all steps of an update, one environment at a time.

use std::sync::Arc;

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_env::{Action, Space};
use homeostat_nn::{
    Adam, AdamConfig, Cell, Head, InputRows, RecurrentConfig, RecurrentGradients, RecurrentInput,
    RecurrentNetwork, RecurrentShape, RecurrentTape, SequenceBatch, clip_factor,
};

use crate::learner::Guard;
use crate::optimized_network::{OptimizedNetwork, policy_and_value};
use crate::ppo::{Losses, Surrogate, mean_and_inverse_deviation, value_loss};
use crate::rollout::{Decided, Rollout};
use crate::workspace::RowScalars;
use crate::{
    ActionCodec, AgentContext, Encoder, Learned, Outcome, PpoConfig, Result, Sampling, Workspace,
};

/// One agent with a recurrent policy.
pub struct RecurrentPpo {
    config: PpoConfig,
    guard: Guard,
    encoder: Encoder,
    codec: ActionCodec,
    head: Head,
    trunk: RecurrentNetwork,
    trunk_adam: Adam,
    actor: OptimizedNetwork,
    critic: OptimizedNetwork,
    envs: Vec<Remembered>,
    rollout: Rollout,
    rng: Stream,
    context: AgentContext,
    step: SequenceBatch,
    tape: RecurrentTape,
}

/// What is remembered of one environment.
#[derive(Debug, Clone)]
pub struct Remembered {
    /// The hidden state.
    state: Vec<f32>,
    /// The same at the first step of the rollout.
    start: Vec<f32>,
    /// What the trunk reads next; the observation's part is written when it is known.
    input: Vec<f32>,
}

impl RecurrentPpo {
    /// An agent with new weights and `hidden` units of memory.
    pub fn new(config: &PpoConfig, hidden: usize, context: &AgentContext) -> Result<Self> {
        config.validate()?;
        let encoder = Encoder::new(&context.spec.observation);
        let codec = ActionCodec::new(&context.spec.action);
        let head = codec.head();
        let inputs = encoder.features() + action_width(&context.spec.action) + 2;
        let mut weights = context.seeds.stream("weights");
        let shape = RecurrentShape::new(RecurrentConfig {
            cell: Cell::Gru,
            inputs,
            hidden,
            layers: 1,
            bidirectional: false,
            dropout: 0.0,
        })?;
        let trunk = RecurrentNetwork::new(Arc::new(shape), &mut weights);
        let (actor, critic) = policy_and_value(
            [hidden, hidden],
            &head,
            &config.hidden,
            config.activation,
            &mut weights,
        )?;
        let adam = AdamConfig { epsilon: config.adam_epsilon, ..AdamConfig::default() };
        let remembered = Remembered {
            state: vec![0.0; hidden],
            start: vec![0.0; hidden],
            input: vec![0.0; inputs],
        };
        Ok(Self {
            guard: Guard::new(context.agent),
            trunk_adam: Adam::new(adam, trunk.params().len()),
            trunk,
            actor: OptimizedNetwork::new("actor", actor, adam),
            critic: OptimizedNetwork::new("critic", critic, adam),
            envs: vec![remembered; config.num_envs],
            rollout: Rollout::new(
                config.num_envs,
                config.steps_per_update,
                inputs,
                head.action_len(),
            ),
            rng: context.seeds.stream("explore"),
            context: context.clone(),
            step: SequenceBatch::uniform(1, 1)?,
            tape: RecurrentTape::default(),
            config: config.clone(),
            encoder,
            codec,
            head,
        })
    }

    /// Forgets everything about one environment, which becomes another one.
    pub fn forget(&mut self, env: usize) {
        let remembered = &mut self.envs[env];
        remembered.state.fill(0.0);
        remembered.input.fill(0.0);
    }

    /// What is remembered of one environment.
    pub fn remembered(&self, env: usize) -> &Remembered {
        &self.envs[env]
    }

    /// Remembers something else of one environment.
    pub fn recall(&mut self, env: usize, remembered: Remembered) {
        self.envs[env] = remembered;
    }

    /// Chooses an action in one environment, and remembers what it saw.
    pub fn act_in(
        &mut self,
        env: usize,
        obs: &[f32],
        sampling: Sampling,
        action: &mut Action,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let Workspace { kernel, actor, critic, head, actions, .. } = workspace;
        self.guard.finite("observation", obs)?;
        let remembered = &mut self.envs[env];
        if self.rollout.is_empty(env) {
            remembered.start.copy_from_slice(&remembered.state);
        }
        self.encoder.encode(obs, &mut remembered.input[..self.encoder.features()]);
        let input = RecurrentInput {
            x: &remembered.input,
            batch: &self.step,
            initial: Some(&remembered.state),
        };
        self.trunk.forward(*kernel, input, None, &mut self.tape);
        remembered.state.copy_from_slice(self.tape.last());
        let outputs = self.actor.forward(*kernel, &remembered.state, 1, actor);
        self.guard.finite("policy output", outputs)?;
        let row = actions.at_least(self.head.action_len());
        match sampling {
            Sampling::Greedy => self.head.mode(outputs, row),
            Sampling::Stochastic => {
                let extra = self.actor.network.extra();
                self.head.sample(*kernel, outputs, extra, &mut self.rng, row, head);
                let value = self.critic.forward(*kernel, &remembered.state, 1, critic)[0];
                self.guard.number("value", value)?;
                let (features, log_prob) = (&remembered.input[..], head.log_prob[0]);
                self.rollout.decide(env, Decided { features, action: row, log_prob, value });
            }
        }
        self.codec.decode(row, action);
        Ok(())
    }

    /// Remembers the outcome of the last action, without learning from it. The policy reads `reward` as it is.
    pub fn remember(&mut self, env: usize, action: &Action, reward: f32, has_ended: bool) {
        let start = self.encoder.features();
        let remembered = &mut self.envs[env].input;
        remembered[start..].fill(0.0);
        let after = write_action(&self.context.spec.action, action, &mut remembered[start..]);
        remembered[start + after] = reward;
        remembered[start + after + 1] = f32::from(u8::from(has_ended));
    }

    /// Records the outcome of the last action, which must have been a random one. [`RecurrentPpo::remember`] comes
    /// first.
    pub fn record(
        &mut self,
        env: usize,
        outcome: Outcome<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let reward = self.guard.take_in(&outcome, self.config.reward_scale)?;
        let remembered = &mut self.envs[env];
        self.encoder.encode(outcome.next_obs, &mut remembered.input[..self.encoder.features()]);
        let value_beyond = match (outcome.terminated, outcome.truncated) {
            (true, _) => Some(0.0),
            (false, true) => Some(self.value_of_next(env, workspace)?),
            (false, false) => None,
        };
        self.rollout.complete(env, reward, value_beyond);
        Ok(())
    }

    /// The value of the state that comes next; the memory stays as it is.
    fn value_of_next(&mut self, env: usize, workspace: &mut Workspace) -> Result<f32> {
        let remembered = &self.envs[env];
        let initial = Some(&remembered.state[..]);
        let input = RecurrentInput { x: &remembered.input, batch: &self.step, initial };
        self.trunk.forward(workspace.kernel, input, None, &mut self.tape);
        let state = self.tape.last();
        let value = self.critic.forward(workspace.kernel, state, 1, &mut workspace.critic)[0];
        self.guard.number("value", value)
    }

    /// Updates the networks, if the rollout is full.
    pub fn learn(&mut self, progress: f64, workspace: &mut Workspace) -> Result<Option<Learned>> {
        if !self.rollout.is_due() {
            return Ok(None);
        }
        let after = (0..self.envs.len()).map(|env| self.value_of_next(env, workspace));
        let after = after.collect::<Result<Vec<f32>>>()?;
        self.rollout.estimate_advantages(self.config.gamma, self.config.gae_lambda, &after);
        let advantages = &mut self.rollout.batch.advantage;
        self.guard.finite("advantages", advantages)?;
        let (mean, inverse) = mean_and_inverse_deviation(advantages.iter().copied());
        advantages.iter_mut().for_each(|advantage| *advantage = (*advantage - mean) * inverse);
        let mut order: Vec<usize> = (0..self.envs.len()).collect();
        let mut losses = Losses::default();
        for _ in 0..self.config.epochs {
            self.rng.shuffle(&mut order);
            for env in &order {
                losses.add(self.gradient_step(*env, progress, workspace)?);
            }
        }
        self.rollout.clear();
        Ok(Some(losses.report()))
    }

    /// One step on all that was played in one environment.
    fn gradient_step(
        &mut self,
        env: usize,
        progress: f64,
        workspace: &mut Workspace,
    ) -> Result<Losses> {
        let Workspace {
            kernel,
            actor,
            critic,
            head,
            per_row,
            d_output,
            d_input,
            actor_grads,
            critic_grads,
            ..
        } = workspace;
        let kernel = *kernel;
        let config = &self.config;
        let count = config.steps_per_update;
        let scale = 1.0 / count as f32;
        let (first, inputs) = (env * count, self.trunk.shape().config().inputs);
        let batch = &self.rollout.batch;
        let x = &batch.features[first * inputs..][..count * inputs];
        let taken_len = self.head.action_len();
        let taken = &batch.actions[first * taken_len..][..count * taken_len];
        let sequence = SequenceBatch::uniform(count, 1)?;
        let initial = Some(&self.envs[env].start[..]);
        let input = RecurrentInput { x, batch: &sequence, initial };
        let states = self.trunk.forward(kernel, input, None, &mut self.tape).to_vec();
        let width = self.trunk.shape().outputs();

        // Actor and critic, as in PPO.
        let outputs = self.actor.forward(kernel, &states, count, actor);
        self.head.evaluate(kernel, outputs, self.actor.network.extra(), taken, head);
        let clip = config.schedule.at(config.clip, progress);
        let mut losses = Losses { minibatches: 1, ..Losses::default() };
        per_row.clear();
        for (row, (log_prob, entropy)) in head.log_prob.iter().zip(&head.entropy).enumerate() {
            let log_ratio = log_prob - batch.log_prob[first + row];
            let ratio = log_ratio.exp();
            let surrogate = Surrogate::new(ratio, batch.advantage[first + row], clip);
            per_row.push(scale * surrogate.d_log_prob);
            losses.policy += f64::from(scale * surrogate.loss);
            losses.entropy += f64::from(scale * entropy);
            losses.kl += f64::from(scale * ((ratio - 1.0) - log_ratio));
        }
        self.guard.finite("policy loss", per_row)?;
        let d = d_output.at_least(count * self.head.outputs());
        let grads = actor_grads.at_least(self.actor.network.params().len());
        let of_head = &mut grads[self.actor.network.shape().parameter_count()..];
        let d_entropy = -scale * config.entropy_coefficient;
        let extra = self.actor.network.extra();
        self.head.gradient(outputs, extra, taken, per_row, d_entropy, head, d, of_head);
        let rows = || InputRows { x: &states, rows: count };
        let d_states = d_input.at_least(2 * count * width);
        let (d_states, d_more) = d_states.split_at_mut(count * width);
        self.actor.backward_to_inputs(kernel, rows(), actor, d, grads, Some(d_states));
        let values = self.critic.forward(kernel, &states, count, critic);
        let d = d_output.at_least(count);
        for ((place, value), d) in values.iter().enumerate().zip(d.iter_mut()) {
            let row = RowScalars {
                target: batch.target[first + place],
                value: batch.value[first + place],
                ..RowScalars::default()
            };
            let (loss, slope) = value_loss(*value, &row, config.value_clip);
            losses.value += f64::from(scale * loss);
            *d = scale * config.value_coefficient * slope;
        }
        let of_critic = critic_grads.at_least(self.critic.network.params().len());
        self.critic.backward_to_inputs(kernel, rows(), critic, d, of_critic, Some(d_more));
        d_states.iter_mut().zip(d_more).for_each(|(sum, more)| *sum += *more);

        // The trunk.
        let mut of_trunk = vec![0.0; self.trunk.params().len()];
        let wanted = RecurrentGradients { params: Some(&mut of_trunk), x: None, initial: None };
        let (shape, params) = (self.trunk.shape(), self.trunk.params());
        shape.backward(kernel, params, input, &mut self.tape, d_states, None, wanted);
        let factor = match config.max_grad_norm {
            Some(norm) => clip_factor(kernel, norm, &[grads, of_critic, &of_trunk]),
            None => 1.0,
        };
        let rate = config.schedule.at(config.actor_learning_rate, progress);
        self.actor.step(kernel, rate, factor, grads, &self.guard)?;
        if !self.trunk_adam.step(kernel, rate, factor, &of_trunk, self.trunk.params_mut()) {
            return Err(self.guard.not_finite("trunk gradient".to_owned(), f32::NAN));
        }
        let rate = config.schedule.at(config.critic_learning_rate, progress);
        self.critic.step(kernel, rate, factor, of_critic, &self.guard)?;
        Ok(losses)
    }

    /// Writes the weights of all networks, without optimisers and memory.
    pub fn save_networks(&self, out: &mut Snapshot) {
        self.trunk.save("trunk", out);
        self.actor.network.save("actor", out);
        self.critic.network.save("critic", out);
    }

    /// Takes over the weights of another agent of the same shape.
    pub fn load_networks(&mut self, from: &Snapshot) -> Result<()> {
        self.trunk.load("trunk", from)?;
        self.actor.network.load("actor", from)?;
        Ok(self.critic.network.load("critic", from)?)
    }
}

/// Numbers that stand for an action: choices one-hot.
fn action_width(space: &Space) -> usize {
    match space {
        Space::Discrete(n) => *n,
        Space::MultiDiscrete(n) => n.iter().sum(),
        Space::Box { low, .. } => low.len(),
    }
}

/// Writes the numbers that stand for an action, and returns how many there are.
fn write_action(space: &Space, action: &Action, out: &mut [f32]) -> usize {
    match action {
        Action::Discrete(choice) => out[*choice] = 1.0,
        Action::MultiDiscrete(choices) => {
            let Space::MultiDiscrete(sizes) = space else { unreachable!("an action of the space") };
            let mut start = 0;
            for (choice, size) in choices.iter().zip(sizes) {
                out[start + choice] = 1.0;
                start += size;
            }
        }
        Action::Continuous(values) => {
            out[..values.len()].copy_from_slice(values);
            ActionCodec::new(space).shrink_finite(&mut out[..values.len()]);
        }
    }
    action_width(space)
}

impl Persist for RecurrentPpo {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.trunk.save(&format!("{name}/trunk"), out);
        self.trunk_adam.save(&format!("{name}/trunk_adam"), out);
        self.actor.save(&format!("{name}/actor"), out);
        self.critic.save(&format!("{name}/critic"), out);
        self.rollout.save(&format!("{name}/rollout"), out);
        self.rng.save(&format!("{name}/rng"), out);
        out.put_u64(&format!("{name}/step"), [self.guard.step]);
        for (env, remembered) in self.envs.iter().enumerate() {
            out.put_f32(&format!("{name}/{env}/state"), remembered.state.as_slice());
            out.put_f32(&format!("{name}/{env}/start"), remembered.start.as_slice());
            out.put_f32(&format!("{name}/{env}/input"), remembered.input.as_slice());
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.trunk.load(&format!("{name}/trunk"), from)?;
        self.trunk_adam.load(&format!("{name}/trunk_adam"), from)?;
        self.actor.load(&format!("{name}/actor"), from)?;
        self.critic.load(&format!("{name}/critic"), from)?;
        self.rollout.load(&format!("{name}/rollout"), from)?;
        self.rng.load(&format!("{name}/rng"), from)?;
        self.guard.step = from.u64s(&format!("{name}/step"), 1)?[0];
        for (env, remembered) in self.envs.iter_mut().enumerate() {
            from.copy_f32s(&format!("{name}/{env}/state"), &mut remembered.state)?;
            from.copy_f32s(&format!("{name}/{env}/start"), &mut remembered.start)?;
            from.copy_f32s(&format!("{name}/{env}/input"), &mut remembered.input)?;
        }
        Ok(())
    }
}
