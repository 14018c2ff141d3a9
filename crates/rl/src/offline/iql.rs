//! Implicit Q-learning (Kostrikov et al., 2022): the value of a state is a high expectile of the
//! values of recorded actions, so that no other action is ever evaluated; the policy imitates
//! recorded actions, the better ones more.

use std::sync::Arc;

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_nn::{Activation, AdamConfig, Head, Init, InputRows, MlpShape, Network};
use serde::{Deserialize, Serialize};

use super::OfflineLearner;
use super::dataset::{Batch, OfflineDataset, finite_box, join_rows};
use super::twin_critic::{TwinCritic, perceptron};
use crate::algorithm::{
    MAX_ROWS, at_least_one, count, learning_rate, not_negative, open_unit, positive, unit,
};
use crate::learner::Guard;
use crate::optimized_network::OptimizedNetwork;
use crate::{AgentContext, Encoder, Learned, Policy, Result, Workspace};

/// Settings of IQL; the defaults are the paper's for locomotion, with smaller networks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IqlConfig {
    /// Transitions in one gradient.
    pub minibatch: usize,
    /// Widths of the hidden layers of policy, value and critics.
    pub hidden: Vec<usize>,
    /// Learning rate of all networks.
    pub learning_rate: f32,
    /// Discount factor.
    pub gamma: f32,
    /// Rate of soft target updates (Polyak averaging).
    pub soft_update: f32,
    /// Which expectile of the recorded actions' values a state is worth: 0.5 is their mean, 1 the
    /// best.
    pub expectile: f32,
    /// How much better actions weigh more in the imitation: zero clones the recorded behaviour.
    pub inverse_temperature: f32,
    /// Largest weight of an action.
    pub max_weight: f32,
}

impl Default for IqlConfig {
    fn default() -> Self {
        Self {
            minibatch: 256,
            hidden: vec![64, 64],
            learning_rate: 3e-4,
            gamma: 0.99,
            soft_update: 5e-3,
            expectile: 0.7,
            inverse_temperature: 3.0,
            max_weight: 100.0,
        }
    }
}

impl IqlConfig {
    /// An error for settings outside their range.
    pub fn validate(&self) -> Result<()> {
        count("iql.minibatch", self.minibatch, MAX_ROWS)?;
        self.hidden.iter().try_for_each(|width| at_least_one("iql.hidden", *width))?;
        learning_rate("iql.learning_rate", self.learning_rate)?;
        open_unit("iql.gamma", self.gamma)?;
        unit("iql.soft_update", self.soft_update)?;
        open_unit("iql.expectile", self.expectile)?;
        positive("iql.expectile", self.expectile)?;
        not_negative("iql.inverse_temperature", self.inverse_temperature)?;
        positive("iql.max_weight", self.max_weight)
    }
}

/// Range of the logarithms of the policy's standard deviations: without it, they go to minus
/// infinity where the recorded behaviour is deterministic.
const LOG_STD: (f32, f32) = (-5.0, 2.0);

/// One IQL agent. Its policy is a normal distribution around tanh of a perceptron; what is served
/// is its mean.
pub struct Iql {
    config: IqlConfig,
    guard: Guard,
    policy: OptimizedNetwork,
    head: Head,
    value: OptimizedNetwork,
    critic: TwinCritic,
    rng: Stream,
    pub(super) batch: Batch,
    rows: Rows,
    context: AgentContext,
}

/// Scratch rows of an update.
#[derive(Default)]
struct Rows {
    x: Vec<f32>,
    values: [Vec<f32>; 2],
    state_values: Vec<f32>,
    targets: Vec<f32>,
    d: Vec<f32>,
}

impl Iql {
    /// An agent with new weights.
    pub fn new(config: &IqlConfig, context: &AgentContext) -> Result<Self> {
        config.validate()?;
        let action_len = finite_box("iql", &context.spec)?;
        let features = Encoder::new(&context.spec.observation).features();
        let mut weights = context.seeds.stream("weights");
        let widths = [&[features], config.hidden.as_slice(), &[action_len]].concat();
        let shape = Arc::new(MlpShape::new(&widths, Activation::Relu, Activation::Tanh)?);
        let policy = Network::new(shape, action_len, Init::UniformFanIn, &mut weights);
        let value = perceptron(features, &config.hidden, 1, &mut weights)?;
        Ok(Self {
            guard: Guard::new(context.agent),
            policy: OptimizedNetwork::new("policy", policy, AdamConfig::default()),
            head: Head::Gaussian(action_len),
            value: OptimizedNetwork::new("value", value, AdamConfig::default()),
            critic: TwinCritic::new(features + action_len, &config.hidden, &mut weights)?,
            rng: context.seeds.stream("learn"),
            batch: Batch::default(),
            rows: Rows::default(),
            config: config.clone(),
            context: context.clone(),
        })
    }

    /// One step on `self.batch`.
    pub(super) fn update(&mut self, workspace: &mut Workspace) -> Result<Learned> {
        let Self { config, batch, rows: scratch, guard, .. } = self;
        let (kernel, rows, rate) = (workspace.kernel, batch.rows, config.learning_rate);
        let scale = 1.0 / rows as f32;
        let Rows { x, values, state_values, targets, d } = scratch;
        join_rows(x, rows, &batch.states, &batch.actions);
        self.critic.target_values(x, rows, values, workspace);

        // Value: |tau - [q < v]| (q - v)^2, with q the smaller of both slow critics.
        let present = self.value.forward(kernel, &batch.states, rows, &mut workspace.critic);
        let mut value_loss = 0.0;
        d.clear();
        for ((v, one), other) in present.iter().zip(&values[0]).zip(&values[1]) {
            let error = one.min(*other) - v;
            let weight = if error < 0.0 { 1.0 - config.expectile } else { config.expectile };
            value_loss += f64::from(weight * error * error * scale);
            d.push(-2.0 * weight * error * scale);
        }
        guard.finite("value loss", d)?;
        let grads = workspace.critic_grads.at_least(self.value.network.params().len());
        self.value.backward(
            kernel,
            InputRows { x: &batch.states, rows },
            &mut workspace.critic,
            d,
            grads,
        );
        self.value.step(kernel, rate, 1.0, grads, guard)?;
        guard.finite("value weights", self.value.network.params())?;

        // Policy: imitate with weight exp(beta (q - v)).
        let present = self.value.forward(kernel, &batch.states, rows, &mut workspace.critic);
        state_values.clear();
        state_values.extend_from_slice(present);
        let mut advantage = 0.0;
        targets.clear();
        for ((v, one), other) in state_values.iter().zip(&values[0]).zip(&values[1]) {
            let above = one.min(*other) - v;
            advantage += f64::from(above * scale);
            let weight = (config.inverse_temperature * above).exp().min(config.max_weight);
            targets.push(-weight * scale);
        }
        let Workspace { actor, actor_grads, head, .. } = workspace;
        let outputs = self.policy.forward(kernel, &batch.states, rows, actor);
        let extra = self.policy.network.extra();
        self.head.evaluate(kernel, outputs, extra, &batch.actions, head);
        let losses = targets.iter().zip(&head.log_prob);
        let policy_loss: f64 = losses.map(|(d, log_prob)| f64::from(d * log_prob)).sum();
        d.clear();
        d.resize(batch.actions.len(), 0.0);
        let grads = actor_grads.at_least(self.policy.network.params().len());
        let (of_layers, of_head) =
            grads.split_at_mut(self.policy.network.shape().parameter_count());
        self.head.gradient(outputs, extra, &batch.actions, targets, 0.0, head, d, of_head);
        guard.finite("policy loss", d)?;
        self.policy.backward(kernel, InputRows { x: &batch.states, rows }, actor, d, of_layers);
        self.policy.step(kernel, rate, 1.0, grads, guard)?;
        guard.finite("policy weights", self.policy.network.params())?;
        let stds = self.policy.network.extra_mut();
        stds.iter_mut().for_each(|log_std| *log_std = log_std.clamp(LOG_STD.0, LOG_STD.1));

        // Critics: squared error to r + gamma V(s').
        let next = self.value.forward(kernel, &batch.next_states, rows, &mut workspace.critic);
        targets.clear();
        let outcomes = batch.rewards.iter().zip(&batch.continues).zip(next);
        targets.extend(
            outcomes.map(|((reward, continues), next)| reward + config.gamma * continues * next),
        );
        let critic_loss = self.critic.regress(x, targets, rate, guard, workspace)?;
        self.critic.require_finite(guard)?;
        self.critic.follow(kernel, config.soft_update);
        Ok(Learned {
            figures: vec![
                ("critic_loss", critic_loss),
                ("value_loss", value_loss),
                ("policy_loss", policy_loss),
                ("advantage", advantage),
            ],
        })
    }
}

impl OfflineLearner for Iql {
    fn learn(&mut self, data: &OfflineDataset, workspace: &mut Workspace) -> Result<Learned> {
        data.require_filled(&self.context)?;
        self.guard.step += 1;
        self.batch.draw(data, self.config.minibatch, &mut self.rng);
        self.update(workspace)
    }

    fn steps(&self) -> u64 {
        self.guard.step
    }

    fn policy(&self) -> Policy {
        // The mean alone is served, without the deviations.
        let trained = &self.policy.network;
        let shape = Arc::new(trained.shape().clone());
        let mut mean = Network::new(shape, 0, Init::UniformFanIn, &mut Stream::from_seed(0));
        for index in 0..trained.layer_count() {
            let (weights, bias, _) = trained.layer(index);
            mean.set_layer(index, &weights, &bias);
        }
        Policy::deterministic(&self.context.spec, "iql", mean)
    }

    fn bytes(&self) -> usize {
        self.policy.bytes() + self.value.bytes() + self.critic.bytes() + self.batch.bytes()
    }
}

impl Persist for Iql {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.policy.save(&format!("{name}/policy"), out);
        self.value.save(&format!("{name}/value"), out);
        self.critic.save(&format!("{name}/critic"), out);
        self.rng.save(&format!("{name}/rng"), out);
        out.put_u64(&format!("{name}/clock"), [self.guard.step]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.policy.load(&format!("{name}/policy"), from)?;
        self.value.load(&format!("{name}/value"), from)?;
        self.critic.load(&format!("{name}/critic"), from)?;
        self.rng.load(&format!("{name}/rng"), from)?;
        self.guard.step = from.u64s(&format!("{name}/clock"), 1)?[0];
        Ok(())
    }
}
