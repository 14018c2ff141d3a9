//! REINFORCE (Williams, 1992) with a learned baseline: whole episodes, then one policy-gradient
//! step with the advantage `return - baseline`.

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_env::Action;
use homeostat_nn::{Activation, AdamConfig, Head, InputRows, clip_factor};
use serde::{Deserialize, Serialize};

use crate::algorithm::{at_least_one, learning_rate, positive, unit};
use crate::learner::Guard;
use crate::optimized_network::{OptimizedNetwork, policy_and_value};
use crate::{
    ActionCodec, AgentContext, Encoder, Learned, Learner, Outcome, Policy, Result, Workspace,
};

/// Settings of REINFORCE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReinforceConfig {
    /// Episodes between two updates.
    pub episodes_per_update: usize,
    /// Gradient steps of the baseline in one update; the policy takes one.
    pub baseline_steps: usize,
    /// Widths of the hidden layers, of policy and baseline alike.
    pub hidden: Vec<usize>,
    /// Activation after each hidden layer.
    pub activation: Activation,
    /// Learning rate of the policy.
    pub policy_learning_rate: f32,
    /// Learning rate of the baseline.
    pub baseline_learning_rate: f32,
    /// Discount factor.
    pub gamma: f32,
    /// Weight of the entropy bonus.
    pub entropy_coefficient: f32,
    /// Whether `return - baseline` is normalised to mean zero and standard deviation one.
    pub normalise_advantages: bool,
    /// Largest norm of each gradient; off if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_grad_norm: Option<f32>,
    /// Factor on every reward.
    pub reward_scale: f32,
}

impl Default for ReinforceConfig {
    fn default() -> Self {
        Self {
            episodes_per_update: 10,
            baseline_steps: 10,
            hidden: vec![64, 64],
            activation: Activation::Tanh,
            policy_learning_rate: 3e-3,
            baseline_learning_rate: 3e-3,
            gamma: 0.99,
            entropy_coefficient: 0.0,
            normalise_advantages: true,
            max_grad_norm: Some(0.5),
            reward_scale: 1.0,
        }
    }
}

impl ReinforceConfig {
    /// An error for settings outside their range.
    pub fn validate(&self) -> Result<()> {
        at_least_one("reinforce.episodes_per_update", self.episodes_per_update)?;
        at_least_one("reinforce.baseline_steps", self.baseline_steps)?;
        for width in &self.hidden {
            at_least_one("reinforce.hidden", *width)?;
        }
        learning_rate("reinforce.policy_learning_rate", self.policy_learning_rate)?;
        learning_rate("reinforce.baseline_learning_rate", self.baseline_learning_rate)?;
        unit("reinforce.gamma", self.gamma)?;
        unit("reinforce.entropy_coefficient", self.entropy_coefficient)?;
        positive("reinforce.reward_scale", self.reward_scale)?;
        self.max_grad_norm.map_or(Ok(()), |norm| positive("reinforce.max_grad_norm", norm))
    }
}

/// One REINFORCE agent. It plays one environment: an episode begun under an old policy
/// must not be finished under a new one.
pub struct Reinforce {
    config: ReinforceConfig,
    guard: Guard,
    encoder: Encoder,
    codec: ActionCodec,
    head: Head,
    policy: OptimizedNetwork,
    baseline: OptimizedNetwork,
    episodes: Episodes,
    rng: Stream,
    context: AgentContext,
}

/// Whole episodes, and the one being played.
#[derive(Debug, Clone, Default)]
struct Episodes {
    features: Vec<f32>,
    actions: Vec<f32>,
    rewards: Vec<f32>,
    /// Discounted sum of what followed each step; filled as episodes end.
    returns: Vec<f32>,
    ended: usize,
}

impl Reinforce {
    /// An agent with new weights.
    pub fn new(config: &ReinforceConfig, context: &AgentContext) -> Result<Self> {
        config.validate()?;
        let encoder = Encoder::new(&context.spec.observation);
        let codec = ActionCodec::new(&context.spec.action);
        let head = codec.head();
        let mut weights = context.seeds.stream("weights");
        let (policy, baseline) = policy_and_value(
            [encoder.features(); 2],
            &head,
            &config.hidden,
            config.activation,
            &mut weights,
        )?;
        Ok(Self {
            guard: Guard::new(context.agent),
            policy: OptimizedNetwork::new("policy", policy, AdamConfig::default()),
            baseline: OptimizedNetwork::new("baseline", baseline, AdamConfig::default()),
            episodes: Episodes::default(),
            rng: context.seeds.stream("explore"),
            context: context.clone(),
            config: config.clone(),
            encoder,
            codec,
            head,
        })
    }

    /// One step of the policy along `sum of advantage * log_prob + beta H`.
    fn policy_step(&mut self, count: usize, workspace: &mut Workspace) -> Result<(f64, f64)> {
        let Workspace { kernel, actor, critic, head, per_row, d_output, actor_grads, .. } =
            workspace;
        let kernel = *kernel;
        let Episodes { features, actions, returns, .. } = &self.episodes;
        let scale = 1.0 / count as f32;

        // `per_row` becomes the slope by each log-probability: minus the advantage.
        let values = self.baseline.forward(kernel, features, count, critic);
        per_row.clear();
        per_row.extend(returns.iter().zip(values).map(|(reached, value)| reached - value));
        if self.config.normalise_advantages && count > 1 {
            let mean = per_row.iter().sum::<f32>() * scale;
            let variance = per_row.iter().map(|a| (a - mean) * (a - mean)).sum::<f32>() * scale;
            let inverse = 1.0 / (variance.sqrt() + 1e-8);
            per_row.iter_mut().for_each(|advantage| *advantage = (*advantage - mean) * inverse);
        }
        per_row.iter_mut().for_each(|advantage| *advantage *= -scale);
        self.guard.finite("advantages", per_row)?;

        let outputs = self.policy.forward(kernel, features, count, actor);
        self.head.evaluate(kernel, outputs, self.policy.network.extra(), actions, head);
        let loss =
            per_row.iter().zip(&head.log_prob).map(|(d, log_prob)| f64::from(d * log_prob)).sum();
        let entropy = head.entropy.iter().map(|entropy| f64::from(entropy * scale)).sum();
        let d = d_output.at_least(count * self.head.outputs());
        let grads = actor_grads.at_least(self.policy.network.params().len());
        let grads_head = &mut grads[self.policy.network.shape().parameter_count()..];
        let d_entropy = -scale * self.config.entropy_coefficient;
        self.head.gradient(
            outputs,
            self.policy.network.extra(),
            actions,
            per_row,
            d_entropy,
            head,
            d,
            grads_head,
        );
        self.guard.finite("policy gradient", d)?;
        self.policy.backward(kernel, InputRows { x: features, rows: count }, actor, d, grads);
        let factor =
            self.config.max_grad_norm.map_or(1.0, |norm| clip_factor(kernel, norm, &[grads]));
        let rate = self.config.policy_learning_rate;
        self.policy.step(kernel, rate, factor, grads, &self.guard)?;
        Ok((loss, entropy))
    }

    /// One step of the baseline on its squared error.
    fn baseline_step(&mut self, count: usize, workspace: &mut Workspace) -> Result<f64> {
        let Workspace { kernel, critic, d_output, critic_grads, .. } = workspace;
        let kernel = *kernel;
        let Episodes { features, returns, .. } = &self.episodes;
        let values = self.baseline.forward(kernel, features, count, critic);
        let d = d_output.at_least(count);
        let mut loss = 0.0;
        for ((value, reached), d) in values.iter().zip(returns).zip(d.iter_mut()) {
            let error = value - reached;
            loss += f64::from(error * error) / count as f64;
            *d = 2.0 * error / count as f32;
        }
        self.guard.finite("baseline loss", d)?;
        let grads = critic_grads.at_least(self.baseline.network.params().len());
        self.baseline.backward(kernel, InputRows { x: features, rows: count }, critic, d, grads);
        let factor =
            self.config.max_grad_norm.map_or(1.0, |norm| clip_factor(kernel, norm, &[grads]));
        let rate = self.config.baseline_learning_rate;
        self.baseline.step(kernel, rate, factor, grads, &self.guard)?;
        Ok(loss)
    }
}

impl Episodes {
    /// Fills in the returns of the episode that just ended, from its last step back.
    fn end(&mut self, gamma: f32, value_beyond: f32) {
        let start = self.returns.len();
        self.returns.resize(self.rewards.len(), 0.0);
        let mut reached = value_beyond;
        for step in (start..self.rewards.len()).rev() {
            reached = self.rewards[step] + gamma * reached;
            self.returns[step] = reached;
        }
        self.ended += 1;
    }

    fn clear(&mut self) {
        self.features.clear();
        self.actions.clear();
        self.rewards.clear();
        self.returns.clear();
        self.ended = 0;
    }
}

impl Learner for Reinforce {
    fn num_envs(&self) -> usize {
        1
    }

    fn act(
        &mut self,
        obs: &[f32],
        actions: &mut [Action],
        workspace: &mut Workspace,
    ) -> Result<()> {
        let Workspace { kernel, actor, head, features, actions: drawn, .. } = workspace;
        self.guard.finite("observation", obs)?;
        let x = features.at_least(self.encoder.features());
        self.encoder.encode(obs, x);
        let outputs = self.policy.forward(*kernel, x, 1, actor);
        self.guard.finite("policy output", outputs)?;
        let row = drawn.at_least(self.head.action_len());
        self.head.sample(*kernel, outputs, self.policy.network.extra(), &mut self.rng, row, head);
        self.guard.finite("action", row)?;
        self.codec.decode(row, &mut actions[0]);
        self.episodes.features.extend_from_slice(x);
        self.episodes.actions.extend_from_slice(row);
        Ok(())
    }

    fn record(&mut self, _: usize, outcome: Outcome<'_>, workspace: &mut Workspace) -> Result<()> {
        let reward = self.guard.take_in(&outcome, self.config.reward_scale)?;
        self.episodes.rewards.push(reward);
        if outcome.terminated {
            self.episodes.end(self.config.gamma, 0.0);
        } else if outcome.truncated {
            let x = workspace.features.at_least(self.encoder.features());
            self.encoder.encode(outcome.next_obs, x);
            let beyond = self.baseline.forward(workspace.kernel, x, 1, &mut workspace.critic)[0];
            self.episodes.end(self.config.gamma, beyond);
        }
        Ok(())
    }

    fn learn(&mut self, _: f64, workspace: &mut Workspace) -> Result<Option<Learned>> {
        if self.episodes.ended < self.config.episodes_per_update {
            return Ok(None);
        }
        let count = self.episodes.returns.len();
        let (policy_loss, entropy) = self.policy_step(count, workspace)?;
        let mut baseline_loss = 0.0;
        for _ in 0..self.config.baseline_steps {
            baseline_loss = self.baseline_step(count, workspace)?;
        }
        self.guard.finite("policy weights", self.policy.network.params())?;
        self.guard.finite("baseline weights", self.baseline.network.params())?;
        self.episodes.clear();
        Ok(Some(Learned {
            figures: vec![
                ("policy_loss", policy_loss),
                ("baseline_loss", baseline_loss),
                ("entropy", entropy),
            ],
        }))
    }

    fn policy(&self) -> Policy {
        Policy::stochastic(&self.context.spec, "reinforce", self.policy.network.clone())
    }

    fn value(&self, obs: &[f32], workspace: &mut Workspace) -> f32 {
        let x = workspace.features.at_least(self.encoder.features());
        self.encoder.encode(obs, x);
        let value = self.baseline.forward(workspace.kernel, x, 1, &mut workspace.critic)[0];
        value / self.config.reward_scale
    }

    fn bytes(&self) -> usize {
        let Episodes { features, actions, rewards, returns, .. } = &self.episodes;
        let buffers: usize = [features, actions, rewards, returns]
            .iter()
            .map(|items| items.capacity() * size_of::<f32>())
            .sum();
        self.policy.bytes() + self.baseline.bytes() + buffers
    }
}

impl Persist for Reinforce {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.policy.save(&format!("{name}/policy"), out);
        self.baseline.save(&format!("{name}/baseline"), out);
        out.put_f32(&format!("{name}/episodes/features"), self.episodes.features.as_slice());
        out.put_f32(&format!("{name}/episodes/actions"), self.episodes.actions.as_slice());
        out.put_f32(&format!("{name}/episodes/rewards"), self.episodes.rewards.as_slice());
        out.put_f32(&format!("{name}/episodes/returns"), self.episodes.returns.as_slice());
        out.put_u64(&format!("{name}/clock"), [self.guard.step, self.episodes.ended as u64]);
        self.rng.save(&format!("{name}/rng"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.policy.load(&format!("{name}/policy"), from)?;
        self.baseline.load(&format!("{name}/baseline"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 2)?;
        self.guard.step = clock[0];
        let rewards = from.any_f32s(&format!("{name}/episodes/rewards"))?.to_vec();
        let count = rewards.len();
        self.episodes = Episodes {
            features: from
                .f32s(&format!("{name}/episodes/features"), count * self.encoder.features())?
                .to_vec(),
            actions: from
                .f32s(&format!("{name}/episodes/actions"), count * self.head.action_len())?
                .to_vec(),
            returns: from.any_f32s(&format!("{name}/episodes/returns"))?.to_vec(),
            ended: clock[1] as usize,
            rewards,
        };
        self.rng.load(&format!("{name}/rng"), from)
    }
}
