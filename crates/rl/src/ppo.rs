//! Proximal policy optimisation (Schulman et al., 2017): clipped surrogate,
//! generalised advantages, entropy bonus, a critic beside the actor.
//!
//! Reads top to bottom: configuration, the agent, acting, learning, one minibatch.

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_env::Action;
use homeostat_nn::{Activation, AdamConfig, AlignedBuffer, Head, InputRows, Network, clip_factor};
use serde::{Deserialize, Serialize};

use crate::algorithm::{
    MAX_ENVS, MAX_ROWS, at_least_one, count, learning_rate, open_unit, positive, unit,
};
use crate::conditioning::Inputs;
use crate::learner::Guard;
use crate::optimized_network::{OptimizedNetwork, policy_and_value};
use crate::rollout::{Batch, Decided, Rollout};
use crate::workspace::RowScalars;
use crate::{
    ActionCodec, AgentContext, ConditionedLearner, EmbeddingTable, Encoder, Learned, Learner,
    Outcome, Policy, Result, Schedule, Workspace,
};

/// Settings of PPO. The defaults are those of Stable-Baselines3 where both have one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PpoConfig {
    /// Environments that the agent acts in at once.
    pub num_envs: usize,
    /// Steps in each environment between two updates.
    pub steps_per_update: usize,
    /// Passes over the steps of one update.
    pub epochs: usize,
    /// Steps in one gradient. Deviation: steps that do not fill a last minibatch are skipped in
    /// this epoch, because the standard deviation of a few rows is not useful; the next epoch
    /// shuffles again.
    pub minibatch: usize,
    /// Widths of the hidden layers, of actor and critic alike.
    pub hidden: Vec<usize>,
    /// Activation after each hidden layer.
    pub activation: Activation,
    /// Learning rate of the actor.
    pub actor_learning_rate: f32,
    /// Learning rate of the critic.
    pub critic_learning_rate: f32,
    /// How both learning rates and the clip range change over the budget.
    pub schedule: Schedule,
    /// Adam's epsilon.
    pub adam_epsilon: f32,
    /// Discount factor.
    pub gamma: f32,
    /// Decay of the advantage estimate.
    pub gae_lambda: f32,
    /// Clip range of the probability ratio around one.
    pub clip: f32,
    /// Clip range of the new value around the old one; off by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_clip: Option<f32>,
    /// Weight of the entropy bonus.
    pub entropy_coefficient: f32,
    /// Weight of the value loss.
    pub value_coefficient: f32,
    /// Largest joint norm of the gradients; off if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_grad_norm: Option<f32>,
    /// Ends the epochs of an update early once the policy has moved this far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_kl: Option<f32>,
    /// The set over which advantages are normalised to mean zero and standard deviation one.
    pub normalise_advantages: AdvantageNormalisation,
    /// Factor on every reward.
    pub reward_scale: f32,
}

/// The set over which advantages are normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdvantageNormalisation {
    /// Each minibatch, as most libraries do.
    Minibatch,
    /// All steps of the update: less noisy with small minibatches.
    Batch,
    /// Not at all.
    Never,
}

impl Default for PpoConfig {
    fn default() -> Self {
        Self {
            num_envs: 8,
            steps_per_update: 256,
            epochs: 10,
            minibatch: 64,
            hidden: vec![64, 64],
            activation: Activation::Tanh,
            actor_learning_rate: 3e-4,
            critic_learning_rate: 3e-4,
            schedule: Schedule::Constant,
            adam_epsilon: 1e-5,
            gamma: 0.99,
            gae_lambda: 0.95,
            clip: 0.2,
            value_clip: None,
            entropy_coefficient: 0.0,
            value_coefficient: 0.5,
            max_grad_norm: Some(0.5),
            target_kl: None,
            normalise_advantages: AdvantageNormalisation::Minibatch,
            reward_scale: 1.0,
        }
    }
}

impl PpoConfig {
    /// An error for settings outside their range.
    pub fn validate(&self) -> Result<()> {
        count("ppo.num_envs", self.num_envs, MAX_ENVS)?;
        count("ppo.steps_per_update", self.steps_per_update, MAX_ROWS / self.num_envs)?;
        at_least_one("ppo.epochs", self.epochs)?;
        count("ppo.minibatch", self.minibatch, MAX_ROWS)?;
        for width in &self.hidden {
            at_least_one("ppo.hidden", *width)?;
        }
        learning_rate("ppo.actor_learning_rate", self.actor_learning_rate)?;
        learning_rate("ppo.critic_learning_rate", self.critic_learning_rate)?;
        positive("ppo.adam_epsilon", self.adam_epsilon)?;
        open_unit("ppo.gamma", self.gamma)?;
        unit("ppo.gae_lambda", self.gae_lambda)?;
        positive("ppo.clip", self.clip)?;
        for (name, value) in [
            ("ppo.value_clip", self.value_clip),
            ("ppo.max_grad_norm", self.max_grad_norm),
            ("ppo.target_kl", self.target_kl),
        ] {
            value.map_or(Ok(()), |value| positive(name, value))?;
        }
        positive("ppo.reward_scale", self.reward_scale)?;
        unit("ppo.entropy_coefficient", self.entropy_coefficient)?;
        positive("ppo.value_coefficient", self.value_coefficient)
    }
}

/// One PPO agent.
pub struct Ppo {
    config: PpoConfig,
    guard: Guard,
    inputs: Inputs,
    codec: ActionCodec,
    head: Head,
    actor: OptimizedNetwork,
    critic: OptimizedNetwork,
    /// Numbers that the critic reads beyond the observation.
    critic_extra: usize,
    /// Which environments the agent acts in.
    open: Vec<bool>,
    rollout: Rollout,
    /// What is kept of each environment's present state, for the value after the last step.
    present: Vec<f32>,
    order: Vec<u32>,
    rng: Stream,
    context: AgentContext,
}

impl Ppo {
    /// An agent with new weights.
    pub fn new(config: &PpoConfig, context: &AgentContext) -> Result<Self> {
        Self::with_critic_extra(config, context, 0)
    }

    /// An agent whose critic reads more than its actor (centralised training): every observation
    /// has `extra` numbers after those of the environment.
    pub fn with_critic_extra(
        config: &PpoConfig,
        context: &AgentContext,
        extra: usize,
    ) -> Result<Self> {
        let inputs = Inputs::new(Encoder::new(&context.spec.observation), None);
        Self::build(config, context, inputs, extra)
    }

    /// An agent whose actor and critic read the embedding of a pair.
    pub fn conditioned(
        config: &PpoConfig,
        context: &AgentContext,
        table: EmbeddingTable,
    ) -> Result<Self> {
        let inputs = Inputs::new(Encoder::new(&context.spec.observation), Some(table));
        Self::build(config, context, inputs, 0)
    }

    fn build(
        config: &PpoConfig,
        context: &AgentContext,
        inputs: Inputs,
        extra: usize,
    ) -> Result<Self> {
        config.validate()?;
        let codec = ActionCodec::new(&context.spec.action);
        let head = codec.head();
        let mut weights = context.seeds.stream("weights");
        let (actor, critic) = policy_and_value(
            [inputs.width(), inputs.width() + extra],
            &head,
            &config.hidden,
            config.activation,
            &mut weights,
        )?;
        let adam = AdamConfig { epsilon: config.adam_epsilon, ..AdamConfig::default() };
        let (envs, steps) = (config.num_envs, config.steps_per_update);
        Ok(Self {
            guard: Guard::new(context.agent),
            actor: OptimizedNetwork::new("actor", actor, adam),
            critic: OptimizedNetwork::new("critic", critic, adam),
            critic_extra: extra,
            open: vec![true; envs],
            rollout: Rollout::new(envs, steps, inputs.kept() + extra, head.action_len()),
            present: vec![0.0; envs * (inputs.kept() + extra)],
            order: Vec::new(),
            rng: context.seeds.stream("explore"),
            context: context.clone(),
            config: config.clone(),
            inputs,
            codec,
            head,
        })
    }

    /// Actor and critic, mutable, to set their weights.
    pub fn networks_mut(&mut self) -> (&mut Network, &mut Network) {
        (&mut self.actor.network, &mut self.critic.network)
    }

    /// Actor and critic.
    pub fn networks(&self) -> (&Network, &Network) {
        (&self.actor.network, &self.critic.network)
    }

    /// Adds an environment to act in, at any time, and returns its index.
    pub fn add_env(&mut self) -> usize {
        let is_free = |env: &usize| !self.open[*env] && self.rollout.is_empty(*env);
        let free = (0..self.open.len()).find(is_free);
        let env = free.unwrap_or_else(|| {
            self.open.push(true);
            self.rollout.grow_to(self.open.len());
            self.present.resize(self.open.len() * self.kept_len(), 0.0);
            self.open.len() - 1
        });
        self.open[env] = true;
        env
    }

    /// Stops acting in an environment. The next update still uses the steps recorded there.
    pub fn remove_env(&mut self, env: usize) {
        self.open[env] = false;
    }

    /// Chooses an action for each of these environments, exploring; `obs` has one row for each.
    pub fn act_in(
        &mut self,
        envs: &[usize],
        obs: &[f32],
        actions: &mut [Action],
        workspace: &mut Workspace,
    ) -> Result<()> {
        let Workspace {
            kernel,
            actor,
            critic,
            head,
            features,
            kept,
            actor_features,
            actions: drawn,
            ..
        } = workspace;
        let (count, action_len) = (envs.len(), self.head.action_len());
        self.guard.finite("observation", obs)?;
        let kept_len = self.kept_len();
        let width = self.context.spec.observation.len() + self.critic_extra;
        let kept = kept.at_least(count * kept_len);
        let rows = obs.chunks_exact(width).zip(kept.chunks_exact_mut(kept_len));
        for ((obs, row), env) in rows.zip(envs) {
            self.keep(*env, obs, row);
        }
        let x = self.inputs.read(kept, features);
        let seen = self.seen_by_actor(x, actor_features);
        let outputs = self.actor.forward(*kernel, seen, count, actor);
        self.guard.finite("policy output", outputs)?;
        let drawn = drawn.at_least(count * action_len);
        self.head.sample(*kernel, outputs, self.actor.network.extra(), &mut self.rng, drawn, head);
        self.guard.finite("action", drawn)?;
        let values = self.critic.forward(*kernel, x, count, critic);
        self.guard.finite("value", values)?;
        for (k, (env, action)) in envs.iter().zip(actions).enumerate() {
            let row = &drawn[k * action_len..][..action_len];
            self.codec.decode(row, action);
            let features = &kept[k * kept_len..][..kept_len];
            self.present[env * kept_len..][..kept_len].copy_from_slice(features);
            let (log_prob, value) = (head.log_prob[k], values[k]);
            self.rollout.decide(*env, Decided { features, action: row, log_prob, value });
        }
        Ok(())
    }

    /// Numbers that are kept of a step for the critic.
    fn kept_len(&self) -> usize {
        self.inputs.kept() + self.critic_extra
    }

    fn keep(&self, env: usize, obs: &[f32], kept: &mut [f32]) {
        let (own, extra) = kept.split_at_mut(self.inputs.kept());
        let (seen, beyond) = obs.split_at(self.context.spec.observation.len());
        self.inputs.keep(env, seen, own);
        extra.copy_from_slice(beyond);
    }

    /// The part of each row that the actor reads.
    fn seen_by_actor<'a>(&self, x: &'a [f32], buffer: &'a mut AlignedBuffer) -> &'a [f32] {
        if self.critic_extra == 0 {
            return x;
        }
        let len = self.inputs.width();
        let width = len + self.critic_extra;
        let seen = buffer.at_least(x.len() / width * len);
        for (row, part) in x.chunks_exact(width).zip(seen.chunks_exact_mut(len)) {
            part.copy_from_slice(&row[..len]);
        }
        seen
    }

    /// One pass over `batch` in the given order, minibatch by minibatch, ended early
    /// if the policy moved beyond `target_kl`.
    pub fn epoch(
        &mut self,
        batch: &Batch,
        order: &[u32],
        progress: f64,
        workspace: &mut Workspace,
    ) -> Result<Losses> {
        let minibatch = self.config.minibatch.min(order.len()).max(1);
        let mut losses = Losses::default();
        for rows in order.chunks_exact(minibatch) {
            losses.add(self.minibatch(batch, rows, progress, workspace)?);
            if self.config.target_kl.is_some_and(|target| losses.last_kl > 1.5 * target) {
                losses.stopped = true;
                break;
            }
        }
        Ok(losses)
    }

    /// One gradient step of actor and critic.
    fn minibatch(
        &mut self,
        batch: &Batch,
        rows: &[u32],
        progress: f64,
        workspace: &mut Workspace,
    ) -> Result<Losses> {
        let Workspace {
            kernel,
            actor,
            critic,
            head,
            features,
            kept,
            actor_features,
            actions,
            rows: scalars,
            per_row,
            d_output,
            d_input,
            actor_grads,
            critic_grads,
            ..
        } = workspace;
        let kernel = *kernel;
        let count = rows.len();
        let scale = 1.0 / count as f32;
        let config = &self.config;

        // Gather the rows.
        let (kept_len, action_len) = (self.kept_len(), self.head.action_len());
        let kept = kept.at_least(count * kept_len);
        let taken = actions.at_least(count * action_len);
        scalars.clear();
        for (k, row) in rows.iter().map(|row| *row as usize).enumerate() {
            kept[k * kept_len..][..kept_len]
                .copy_from_slice(&batch.features[row * kept_len..][..kept_len]);
            taken[k * action_len..][..action_len]
                .copy_from_slice(&batch.actions[row * action_len..][..action_len]);
            scalars.push(RowScalars {
                log_prob: batch.log_prob[row],
                advantage: batch.advantage[row],
                target: batch.target[row],
                value: batch.value[row],
            });
        }
        if config.normalise_advantages == AdvantageNormalisation::Minibatch {
            normalise(scalars);
        }

        let x = self.inputs.read(kept, features);
        let width = self.inputs.width();
        let wants_gradient = self.inputs.wants_gradient();
        let d_x = d_input.at_least(if wants_gradient { count * width } else { 0 });

        // Actor: minimise -min(ratio A, clip(ratio) A) - beta H.
        let seen = self.seen_by_actor(x, actor_features);
        let outputs = self.actor.forward(kernel, seen, count, actor);
        self.head.evaluate(kernel, outputs, self.actor.network.extra(), taken, head);
        let clip = config.schedule.at(config.clip, progress);
        let mut losses = Losses { minibatches: 1, ..Losses::default() };
        per_row.clear();
        for ((log_prob, entropy), row) in
            head.log_prob.iter().zip(&head.entropy).zip(scalars.iter())
        {
            let log_ratio = log_prob - row.log_prob;
            let ratio = log_ratio.exp();
            let surrogate = Surrogate::new(ratio, row.advantage, clip);
            per_row.push(scale * surrogate.d_log_prob);
            losses.policy += f64::from(scale * surrogate.loss);
            losses.entropy += f64::from(scale * entropy);
            losses.clipped += f64::from(scale) * f64::from(u8::from(surrogate.clipped));
            // k3 of Schulman's note: unbiased and never negative.
            losses.last_kl += scale * ((ratio - 1.0) - log_ratio);
        }
        losses.kl = f64::from(losses.last_kl);
        self.guard.finite("policy loss", per_row)?;
        let d = d_output.at_least(count * self.head.outputs());
        let grads = actor_grads.at_least(self.actor.network.params().len());
        let grads_head = &mut grads[self.actor.network.shape().parameter_count()..];
        let d_entropy = -scale * config.entropy_coefficient;
        self.head.gradient(
            outputs,
            self.actor.network.extra(),
            taken,
            per_row,
            d_entropy,
            head,
            d,
            grads_head,
        );
        self.guard.finite("policy gradient", d)?;
        let input = InputRows { x: seen, rows: count };
        let d_seen = wants_gradient.then_some(&mut *d_x);
        self.actor.backward_to_inputs(kernel, input, actor, d, grads, d_seen);
        self.inputs.add_gradient(kept, d_x, width);

        // Critic: minimise the squared error, optionally not trusting far moves.
        let values = self.critic.forward(kernel, x, count, critic);
        let d = d_output.at_least(count);
        for ((value, row), d) in values.iter().zip(scalars.iter()).zip(d.iter_mut()) {
            let (loss, slope) = value_loss(*value, row, config.value_clip);
            losses.value += f64::from(scale * loss);
            *d = scale * config.value_coefficient * slope;
        }
        self.guard.finite("value loss", d)?;
        let grads_critic = critic_grads.at_least(self.critic.network.params().len());
        let input = InputRows { x, rows: count };
        let d_seen = wants_gradient.then_some(&mut *d_x);
        self.critic.backward_to_inputs(kernel, input, critic, d, grads_critic, d_seen);
        self.inputs.add_gradient(kept, d_x, width);
        self.inputs.end_minibatch();

        // Step.
        let factor = match config.max_grad_norm {
            Some(norm) => clip_factor(kernel, norm, &[grads, grads_critic]),
            None => 1.0,
        };
        let rate = config.schedule.at(config.actor_learning_rate, progress);
        self.actor.step(kernel, rate, factor, grads, &self.guard)?;
        let rate = config.schedule.at(config.critic_learning_rate, progress);
        self.critic.step(kernel, rate, factor, grads_critic, &self.guard)?;
        Ok(losses)
    }

    fn policy_for(&self, pair: usize) -> Policy {
        let actor = self.inputs.unconditioned(&self.actor.network, pair);
        Policy::stochastic(&self.context.spec, "ppo", actor)
    }

    /// All epochs over the full rollout.
    fn update(&mut self, progress: f64, workspace: &mut Workspace) -> Result<Losses> {
        self.estimate_advantages(workspace)?;
        let batch = std::mem::take(&mut self.rollout.batch);
        let mut order = std::mem::take(&mut self.order);
        let losses = self.epochs(&batch, &mut order, progress, workspace);
        self.rollout.batch = batch;
        self.order = order;
        let losses = losses?;
        self.guard.finite("actor weights", self.actor.network.params())?;
        self.guard.finite("critic weights", self.critic.network.params())?;
        Ok(losses)
    }

    fn epochs(
        &mut self,
        batch: &Batch,
        order: &mut [u32],
        progress: f64,
        workspace: &mut Workspace,
    ) -> Result<Losses> {
        let mut losses = Losses::default();
        for epoch in 0..self.config.epochs {
            // Later epochs see a policy that has moved: their gradients by embeddings describe it, not the pairs, and
            // with them embeddings did not settle.
            self.inputs.collect_gradients(epoch == 0);
            self.rng.shuffle(order);
            losses.add(self.epoch(batch, order, progress, workspace)?);
            if losses.stopped {
                break;
            }
        }
        Ok(losses)
    }

    /// Advantages and value targets of the rollout, and the order of its rows.
    fn estimate_advantages(&mut self, workspace: &mut Workspace) -> Result<()> {
        let PpoConfig { gamma, gae_lambda, normalise_advantages, .. } = self.config;
        let envs = self.open.len();
        let present = self.inputs.read(&self.present, &mut workspace.features);
        let after = self.critic.forward(workspace.kernel, present, envs, &mut workspace.critic);
        self.rollout.estimate_advantages(gamma, gae_lambda, after);
        self.order.clear();
        self.order.extend(self.rollout.rows());
        let rows = self.order.iter().map(|row| *row as usize);
        let advantages = &mut self.rollout.batch.advantage;
        self.guard.finite("advantages", advantages)?;
        if normalise_advantages == AdvantageNormalisation::Batch {
            let values = rows.clone().map(|row| advantages[row]);
            let (mean, inverse) = mean_and_inverse_deviation(values);
            rows.for_each(|row| advantages[row] = (advantages[row] - mean) * inverse);
        }
        Ok(())
    }
}

impl Learner for Ppo {
    fn num_envs(&self) -> usize {
        self.open.len()
    }

    fn act(
        &mut self,
        obs: &[f32],
        actions: &mut [Action],
        workspace: &mut Workspace,
    ) -> Result<()> {
        let mut envs = std::mem::take(&mut workspace.envs);
        envs.clear();
        envs.extend(0..self.open.len());
        let acted = self.act_in(&envs, obs, actions, workspace);
        workspace.envs = envs;
        acted
    }

    fn record(
        &mut self,
        env: usize,
        outcome: Outcome<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        let reward = self.guard.take_in(&outcome, self.config.reward_scale)?;
        let kept_len = self.kept_len();
        let mut present = std::mem::take(&mut self.present);
        let row = &mut present[env * kept_len..][..kept_len];
        self.keep(env, outcome.next_obs, row);
        self.present = present;
        let present = &self.present[env * kept_len..][..kept_len];
        let value_beyond = match (outcome.terminated, outcome.truncated) {
            (true, _) => Some(0.0),
            (false, true) => {
                let present = self.inputs.read(present, &mut workspace.features);
                let value =
                    self.critic.forward(workspace.kernel, present, 1, &mut workspace.critic)[0];
                Some(self.guard.number("value", value)?)
            }
            (false, false) => None,
        };
        self.rollout.complete(env, reward, value_beyond);
        Ok(())
    }

    fn is_due(&self) -> bool {
        self.rollout.is_due()
    }

    fn learn(&mut self, progress: f64, workspace: &mut Workspace) -> Result<Option<Learned>> {
        if !self.is_due() {
            return Ok(None);
        }
        let losses = self.update(progress, workspace);
        // After an error too: a full rollout has no room for another step.
        self.rollout.clear();
        Ok(Some(losses?.report()))
    }

    fn policy(&self) -> Policy {
        self.policy_for(self.inputs.present_pairs()[0])
    }

    fn value(&self, obs: &[f32], workspace: &mut Workspace) -> f32 {
        let kept = workspace.kept.at_least(self.kept_len());
        self.keep(0, obs, kept);
        let x = self.inputs.read(kept, &mut workspace.features);
        let value = self.critic.forward(workspace.kernel, x, 1, &mut workspace.critic)[0];
        value / self.config.reward_scale
    }

    fn bytes(&self) -> usize {
        let scratch = (self.present.len() + self.order.len()) * size_of::<f32>();
        self.actor.bytes() + self.critic.bytes() + self.rollout.bytes() + scratch
    }
}

impl ConditionedLearner for Ppo {
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
        Ok(self.critic.network.load("critic", from)?)
    }
}

impl Persist for Ppo {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.actor.save(&format!("{name}/actor"), out);
        self.critic.save(&format!("{name}/critic"), out);
        self.rollout.save(&format!("{name}/rollout"), out);
        self.rng.save(&format!("{name}/rng"), out);
        out.put_f32(&format!("{name}/present"), self.present.as_slice());
        out.put_u64(&format!("{name}/step"), [self.guard.step]);
        let open: Vec<u64> = self.open.iter().map(|is_open| u64::from(*is_open)).collect();
        out.put_u64(&format!("{name}/open"), open);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        // Environments may have been added since the agent was made.
        self.open = from.any_u64s(&format!("{name}/open"))?.iter().map(|flag| *flag != 0).collect();
        self.rollout.grow_to(self.open.len());
        self.present.resize(self.open.len() * self.kept_len(), 0.0);
        self.actor.load(&format!("{name}/actor"), from)?;
        self.critic.load(&format!("{name}/critic"), from)?;
        self.rollout.load(&format!("{name}/rollout"), from)?;
        self.rng.load(&format!("{name}/rng"), from)?;
        from.copy_f32s(&format!("{name}/present"), &mut self.present)?;
        self.guard.step = from.u64s(&format!("{name}/step"), 1)?[0];
        Ok(())
    }
}

/// Sums over minibatches, for the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Losses {
    pub(crate) policy: f64,
    pub(crate) value: f64,
    pub(crate) entropy: f64,
    pub(crate) clipped: f64,
    pub(crate) kl: f64,
    pub(crate) last_kl: f32,
    pub(crate) minibatches: u32,
    pub(crate) stopped: bool,
}

impl Losses {
    pub(crate) fn add(&mut self, other: Self) {
        self.policy += other.policy;
        self.value += other.value;
        self.entropy += other.entropy;
        self.clipped += other.clipped;
        self.kl += other.kl;
        self.last_kl = other.last_kl;
        self.minibatches += other.minibatches;
        self.stopped |= other.stopped;
    }

    /// The means over the minibatches so far.
    pub fn report(&self) -> Learned {
        let mean = |sum: f64| sum / f64::from(self.minibatches.max(1));
        Learned {
            figures: vec![
                ("policy_loss", mean(self.policy)),
                ("value_loss", mean(self.value)),
                ("entropy", mean(self.entropy)),
                ("clip_fraction", mean(self.clipped)),
                ("approximate_kl", mean(self.kl)),
            ],
        }
    }
}

/// The clipped surrogate of one step, `-min(ratio A, clip(ratio) A)`.
pub(crate) struct Surrogate {
    pub(crate) loss: f32,
    /// Its slope by the log-probability; zero where the clip holds.
    pub(crate) d_log_prob: f32,
    clipped: bool,
}

impl Surrogate {
    pub(crate) fn new(ratio: f32, advantage: f32, clip: f32) -> Self {
        let free = -advantage * ratio;
        let held = -advantage * ratio.clamp(1.0 - clip, 1.0 + clip);
        let clipped = held > free;
        Self { loss: free.max(held), d_log_prob: if clipped { 0.0 } else { free }, clipped }
    }
}

/// Squared error of a value and its slope. With a clip, the larger of the plain
/// error and that of the value held near the old one.
pub(crate) fn value_loss(value: f32, row: &RowScalars, clip: Option<f32>) -> (f32, f32) {
    let error = value - row.target;
    let Some(clip) = clip else {
        return (error * error, 2.0 * error);
    };
    let held = row.value + (value - row.value).clamp(-clip, clip);
    let held_error = held - row.target;
    if held_error * held_error > error * error {
        let moves = (value - row.value).abs() < clip;
        (held_error * held_error, if moves { 2.0 * held_error } else { 0.0 })
    } else {
        (error * error, 2.0 * error)
    }
}

fn normalise(rows: &mut [RowScalars]) {
    let (mean, inverse) = mean_and_inverse_deviation(rows.iter().map(|row| row.advantage));
    rows.iter_mut().for_each(|row| row.advantage = (row.advantage - mean) * inverse);
}

/// Mean, and one over the sample deviation. One row alone has no deviation, and
/// less its mean nothing would be left of it: it stays as it is.
pub(crate) fn mean_and_inverse_deviation(values: impl Iterator<Item = f32> + Clone) -> (f32, f32) {
    let count = values.clone().count() as f32;
    if count < 2.0 {
        return (0.0, 1.0);
    }
    let mean = values.clone().sum::<f32>() / count;
    let variance = values.map(|value| (value - mean) * (value - mean)).sum::<f32>() / (count - 1.0);
    (mean, 1.0 / (variance.sqrt() + 1e-8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Half the distance between the two points of a difference. Large for a
    /// difference, because the losses round to single precision.
    const STEP: f32 = 1e-2;

    fn slope(at: f32, loss: impl Fn(f32) -> f32) -> f32 {
        (loss(at + STEP) - loss(at - STEP)) / (2.0 * STEP)
    }

    fn is_near(kinks: &[f32], at: f32) -> bool {
        kinks.iter().any(|kink| (at - kink).abs() < 2.0 * STEP)
    }

    fn row_with(target: f32, value: f32) -> RowScalars {
        RowScalars { target, value, ..RowScalars::default() }
    }

    proptest! {
        #[test]
        fn the_surrogate_has_the_slope_of_its_loss(
            log_ratio in -1.5f32..1.5,
            advantage in -3.0f32..3.0,
            clip in 0.05f32..0.5,
        ) {
            prop_assume!(!is_near(&[(1.0 - clip).ln(), (1.0 + clip).ln()], log_ratio));
            let at = |log_ratio: f32| Surrogate::new(log_ratio.exp(), advantage, clip);
            let expect = slope(log_ratio, |log_ratio| at(log_ratio).loss);
            let got = at(log_ratio).d_log_prob;
            prop_assert!((got - expect).abs() < 1e-3, "{got}, expected {expect}");
            prop_assert_eq!(at(log_ratio).clipped, expect == 0.0 && advantage != 0.0);
        }

        #[test]
        fn the_surrogate_is_the_worse_of_free_and_clipped(
            ratio in 0.1f32..4.0,
            advantage in -3.0f32..3.0,
            clip in 0.05f32..0.5,
        ) {
            let worse = (ratio * advantage).min(ratio.clamp(1.0 - clip, 1.0 + clip) * advantage);
            prop_assert_eq!(Surrogate::new(ratio, advantage, clip).loss, -worse);
        }

        #[test]
        fn the_value_loss_has_the_slope_it_says(
            value in -3.0f32..3.0,
            target in -3.0f32..3.0,
            old_value in -3.0f32..3.0,
            clip in prop::option::of(0.05f32..2.0),
        ) {
            if let Some(clip) = clip {
                // Where the clip begins to hold, and where the held error becomes the smaller.
                let ends = [old_value - clip, old_value + clip];
                prop_assume!(!is_near(&ends, value));
                prop_assume!(!is_near(&ends.map(|end| 2.0 * target - end), value));
            }
            let row = row_with(target, old_value);
            let expect = slope(value, |value| value_loss(value, &row, clip).0);
            let (_, got) = value_loss(value, &row, clip);
            prop_assert!((got - expect).abs() < 1e-3, "{got}, expected {expect}");
        }

        #[test]
        fn normalised_advantages_have_mean_zero_and_deviation_one(
            advantages in prop::collection::vec(-9.0f32..9.0, 2..50),
        ) {
            let (low, high) = advantages.iter().fold((9.0f32, -9.0f32), |(low, high), advantage| {
                (low.min(*advantage), high.max(*advantage))
            });
            prop_assume!(high - low > 0.1);
            let row = |advantage: &f32| RowScalars { advantage: *advantage, ..row_with(0.0, 0.0) };
            let mut rows: Vec<_> = advantages.iter().map(row).collect();
            normalise(&mut rows);
            let count = rows.len() as f32;
            let mean = rows.iter().map(|row| row.advantage).sum::<f32>() / count;
            let squares = rows.iter().map(|row| row.advantage * row.advantage).sum::<f32>();
            prop_assert!(mean.abs() < 1e-4, "mean {mean}");
            prop_assert!((squares / (count - 1.0) - 1.0).abs() < 1e-3, "squares {squares}");
        }
    }

    #[test]
    fn a_single_advantage_is_not_normalised_away() {
        let mut rows = [RowScalars { advantage: 3.0, ..row_with(0.0, 0.0) }];
        normalise(&mut rows);
        assert_eq!(rows[0].advantage, 3.0);
    }

    #[test]
    fn a_value_that_was_held_back_is_not_pulled_further() {
        let check = |value: f32, old_value: f32, target: f32, expect: (f32, f32)| {
            let got = value_loss(value, &row_with(target, old_value), Some(0.5));
            assert_eq!(got, expect, "{value} from {old_value} to {target}");
        };
        check(1.25, 1.0, 3.0, (1.75 * 1.75, -3.5));
        // It has moved its 0.5 towards the target and beyond: nothing more to gain.
        check(2.0, 1.0, 3.0, (1.5 * 1.5, 0.0));
        // It has moved away from the target: the whole error pulls it back.
        check(0.0, 1.0, 3.0, (9.0, -6.0));
    }
}
