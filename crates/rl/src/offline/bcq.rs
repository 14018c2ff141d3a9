//! Batch-constrained deep Q-learning (Fujimoto et al., 2019), the "state-conditioned generative
//! model" of AWARE (Section 5.3.4): a variational autoencoder learns which actions were recorded in
//! a state; the policy draws some of them, moves each a little, and takes the one with the highest
//! value.

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_nn::{AdamConfig, InputRows, Network};
use serde::{Deserialize, Serialize};

use super::OfflineLearner;
use super::dataset::{Batch, OfflineDataset, draw_normals, finite_box, join_rows};
use super::twin_critic::{TwinCritic, bounded_perceptron, perceptron};
use crate::algorithm::{MAX_ROWS, at_least_one, count, learning_rate, open_unit, positive, unit};
use crate::constrained_model::ConstrainedModel;
use crate::learner::Guard;
use crate::optimized_network::OptimizedNetwork;
use crate::{AgentContext, Encoder, Learned, Policy, Result, Workspace};

/// Settings of BCQ; the defaults are the paper's, with smaller networks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BcqConfig {
    /// Transitions in one gradient.
    pub minibatch: usize,
    /// Widths of the hidden layers of all networks.
    pub hidden: Vec<usize>,
    /// Learning rate of all networks.
    pub learning_rate: f32,
    /// Discount factor.
    pub gamma: f32,
    /// Rate of soft target updates (Polyak averaging).
    pub soft_update: f32,
    /// Weight of the smaller of two values in a target; the larger has the rest.
    pub lambda: f32,
    /// Largest move of a generated action, in units of [-1, 1].
    pub perturbation: f32,
    /// Generated actions among which a target takes the best.
    pub target_candidates: usize,
    /// The same for the policy that is served.
    pub served_candidates: usize,
}

impl Default for BcqConfig {
    fn default() -> Self {
        Self {
            minibatch: 100,
            hidden: vec![64, 64],
            learning_rate: 1e-3,
            gamma: 0.99,
            soft_update: 5e-3,
            lambda: 0.75,
            perturbation: 0.05,
            target_candidates: 10,
            served_candidates: 100,
        }
    }
}

impl BcqConfig {
    /// An error for settings outside their range.
    pub fn validate(&self) -> Result<()> {
        count("bcq.minibatch", self.minibatch, MAX_ROWS)?;
        self.hidden.iter().try_for_each(|width| at_least_one("bcq.hidden", *width))?;
        learning_rate("bcq.learning_rate", self.learning_rate)?;
        open_unit("bcq.gamma", self.gamma)?;
        unit("bcq.soft_update", self.soft_update)?;
        unit("bcq.lambda", self.lambda)?;
        unit("bcq.perturbation", self.perturbation)?;
        positive("bcq.perturbation", self.perturbation)?;
        count("bcq.target_candidates", self.target_candidates, 1000)?;
        count("bcq.served_candidates", self.served_candidates, 1000)
    }
}

/// Latent numbers for each number of an action.
const LATENT_FACTOR: usize = 2;
/// Generated actions come from latent numbers of at most this size: nearer to what was recorded
/// than the whole normal distribution.
const LATENT_CLIP: f32 = 0.5;
/// Range of the logarithms of the encoder's standard deviations.
const LOG_STD: (f32, f32) = (-4.0, 15.0);
/// Weight of the divergence from the prior in the autoencoder's loss.
const DIVERGENCE_WEIGHT: f32 = 0.5;

/// One BCQ agent.
pub struct Bcq {
    config: BcqConfig,
    guard: Guard,
    encoder: OptimizedNetwork,
    decoder: OptimizedNetwork,
    perturbation: OptimizedNetwork,
    perturbation_target: Network,
    critic: TwinCritic,
    action_len: usize,
    rng: Stream,
    pub(super) batch: Batch,
    pub(super) noise: Vec<f32>,
    /// Latent numbers of the candidates among which the served policy chooses. Deviation: the paper
    /// draws them at every decision; drawn once, the policy is a function of its observation.
    served_latents: Vec<f32>,
    rows: Rows,
    context: AgentContext,
}

/// Scratch rows of an update.
#[derive(Default)]
struct Rows {
    x: Vec<f32>,
    states: Vec<f32>,
    latents: Vec<f32>,
    actions: Vec<f32>,
    values: [Vec<f32>; 2],
    targets: Vec<f32>,
    d: Vec<f32>,
}

impl Bcq {
    /// An agent with new weights.
    pub fn new(config: &BcqConfig, context: &AgentContext) -> Result<Self> {
        config.validate()?;
        let action_len = finite_box("bcq", &context.spec)?;
        let features = Encoder::new(&context.spec.observation).features();
        let latent_len = LATENT_FACTOR * action_len;
        let mut weights = context.seeds.stream("weights");
        let (hidden, width) = (config.hidden.as_slice(), features + action_len);
        let optimized = |name, network| OptimizedNetwork::new(name, network, AdamConfig::default());
        let encoder = perceptron(width, hidden, 2 * latent_len, &mut weights)?;
        let decoder = bounded_perceptron(features + latent_len, hidden, action_len, &mut weights)?;
        let perturbation = bounded_perceptron(width, hidden, action_len, &mut weights)?;
        let mut served_latents = Vec::new();
        let mut served = context.seeds.stream("served candidates");
        draw_normals(&mut served_latents, config.served_candidates * latent_len, &mut served);
        clip_latents(&mut served_latents);
        Ok(Self {
            guard: Guard::new(context.agent),
            encoder: optimized("encoder", encoder),
            decoder: optimized("decoder", decoder),
            perturbation_target: perturbation.clone(),
            perturbation: optimized("perturbation", perturbation),
            critic: TwinCritic::new(width, hidden, &mut weights)?,
            action_len,
            rng: context.seeds.stream("learn"),
            batch: Batch::default(),
            noise: Vec::new(),
            served_latents,
            rows: Rows::default(),
            config: config.clone(),
            context: context.clone(),
        })
    }

    fn latent_len(&self) -> usize {
        LATENT_FACTOR * self.action_len
    }

    /// Normal draws that one update takes: for the autoencoder, for the candidates of each target,
    /// and for the actions that the perturbation is trained on.
    pub(super) fn noise_len(&self, rows: usize) -> usize {
        rows * self.latent_len() * (2 + self.config.target_candidates)
    }

    /// One step on `self.batch` with the draws of `self.noise`.
    pub(super) fn update(&mut self, workspace: &mut Workspace) -> Result<Learned> {
        let of_rows = self.batch.rows * self.latent_len();
        let mut noise = std::mem::take(&mut self.noise);
        let (of_autoencoder, rest) = noise.split_at_mut(of_rows);
        let (of_targets, of_policy) = rest.split_at_mut(of_rows * self.config.target_candidates);
        clip_latents(of_targets);
        clip_latents(of_policy);
        let autoencoder_loss = self.learn_recorded_actions(of_autoencoder, workspace)?;
        let critic_loss = self.learn_values(of_targets, workspace)?;
        let value = self.learn_perturbation(of_policy, workspace)?;
        self.noise = noise;
        let (rate, kernel) = (self.config.soft_update, workspace.kernel);
        self.critic.follow(kernel, rate);
        self.perturbation_target.follow(kernel, rate, &self.perturbation.network);
        Ok(Learned {
            figures: vec![
                ("autoencoder_loss", autoencoder_loss),
                ("critic_loss", critic_loss),
                ("value", value),
            ],
        })
    }

    /// A step of the autoencoder: reconstruction, and divergence from a standard normal.
    fn learn_recorded_actions(&mut self, noise: &[f32], workspace: &mut Workspace) -> Result<f64> {
        let latent_len = self.latent_len();
        let Self { config, batch, rows: Rows { x, latents, actions, d, .. }, guard, .. } = self;
        let Workspace { kernel, actor, target, d_input, actor_grads, critic_grads, .. } = workspace;
        let (kernel, rows, rate) = (*kernel, batch.rows, config.learning_rate);
        join_rows(x, rows, &batch.states, &batch.actions);
        let encoded = self.encoder.forward(kernel, x, rows, actor);
        // z = mean + deviation * noise
        latents.clear();
        for (row, noise) in encoded.chunks_exact(2 * latent_len).zip(noise.chunks_exact(latent_len))
        {
            let (mean, log_std) = row.split_at(latent_len);
            let drawn = mean.iter().zip(log_std).zip(noise);
            latents.extend(drawn.map(|((mean, log_std), noise)| {
                mean + log_std.clamp(LOG_STD.0, LOG_STD.1).exp() * noise
            }));
        }
        join_rows(actions, rows, &batch.states, latents);
        let decoded = self.decoder.forward(kernel, actions, rows, target);
        let scale = 1.0 / batch.actions.len() as f32;
        let mut loss = 0.0;
        d.clear();
        for (decoded, recorded) in decoded.iter().zip(&batch.actions) {
            let error = decoded - recorded;
            loss += f64::from(error * error * scale);
            d.push(2.0 * error * scale);
        }
        let d_x = d_input.at_least(actions.len());
        let of_decoder = critic_grads.at_least(self.decoder.network.params().len());
        let (shape, params) = (self.decoder.network.shape(), self.decoder.network.params());
        let count = shape.parameter_count();
        let grads = Some(&mut of_decoder[..count]);
        shape.backward(kernel, params, InputRows { x: actions, rows }, target, d, grads, Some(d_x));

        // Through z to mean and deviation, and their divergence from the prior:
        // -1/2 mean(1 + log var - mean^2 - var).
        let features = batch.states.len() / rows;
        let scale = DIVERGENCE_WEIGHT / latents.len() as f32;
        d.clear();
        d.resize(rows * 2 * latent_len, 0.0);
        for (row, d) in d.chunks_exact_mut(2 * latent_len).enumerate() {
            let (d_mean, d_log_std) = d.split_at_mut(latent_len);
            let encoded = &encoded[row * 2 * latent_len..];
            for k in 0..latent_len {
                let d_z = d_x[row * (features + latent_len) + features + k];
                let (mean, raw) = (encoded[k], encoded[latent_len + k]);
                let log_std = raw.clamp(LOG_STD.0, LOG_STD.1);
                let (std, variance) = (log_std.exp(), (2.0 * log_std).exp());
                let divergence = 0.5 * (mean * mean + variance - 1.0) - log_std;
                loss += f64::from(divergence * scale);
                d_mean[k] = d_z + mean * scale;
                let is_free = raw == log_std;
                let by_std = d_z * std * noise[row * latent_len + k] + (variance - 1.0) * scale;
                d_log_std[k] = if is_free { by_std } else { 0.0 };
            }
        }
        guard.finite("autoencoder loss", d)?;
        self.decoder.step(kernel, rate, 1.0, of_decoder, guard)?;
        let grads = actor_grads.at_least(self.encoder.network.params().len());
        self.encoder.backward(kernel, InputRows { x, rows }, actor, d, grads);
        self.encoder.step(kernel, rate, 1.0, grads, guard)?;
        guard.finite("encoder weights", self.encoder.network.params())?;
        guard.finite("decoder weights", self.decoder.network.params())?;
        Ok(loss)
    }

    /// A step of the critics towards r + gamma times the best candidate's value.
    fn learn_values(&mut self, latents: &[f32], workspace: &mut Workspace) -> Result<f64> {
        let latent_len = self.latent_len();
        let Self { config, batch, rows: scratch, guard, .. } = self;
        let Rows { x, states, actions, values, targets, .. } = scratch;
        let (kernel, candidates) = (workspace.kernel, config.target_candidates);
        let rows = batch.rows * candidates;
        let features = batch.states.len() / batch.rows;
        states.clear();
        for state in batch.next_states.chunks_exact(features) {
            (0..candidates).for_each(|_| states.extend_from_slice(state));
        }
        debug_assert_eq!(latents.len(), rows * latent_len, "one latent for each candidate");
        join_rows(x, rows, states, latents);
        let decoded = self.decoder.forward(kernel, x, rows, &mut workspace.actor);
        actions.clear();
        actions.extend_from_slice(decoded);
        join_rows(x, rows, states, actions);
        let moves = self.perturbation_target.forward(kernel, x, rows, &mut workspace.actor);
        perturb(actions, moves, config.perturbation);
        join_rows(x, rows, states, actions);
        self.critic.target_values(x, rows, values, workspace);
        let lambda = config.lambda;
        let pairs = values[0].iter().zip(&values[1]);
        let mixed =
            pairs.map(|(one, other)| lambda * one.min(*other) + (1.0 - lambda) * one.max(*other));
        targets.clear();
        targets.extend(mixed);
        for row in 0..batch.rows {
            let of_row = &targets[row * candidates..][..candidates];
            let best = of_row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            targets[row] = batch.rewards[row] + config.gamma * batch.continues[row] * best;
        }
        targets.truncate(batch.rows);
        join_rows(x, batch.rows, &batch.states, &batch.actions);
        let loss = self.critic.regress(x, targets, config.learning_rate, guard, workspace)?;
        self.critic.require_finite(guard)?;
        Ok(loss)
    }

    /// A step of the perturbation up the first critic. Returns the mean value.
    fn learn_perturbation(&mut self, latents: &[f32], workspace: &mut Workspace) -> Result<f64> {
        let Self { config, batch, rows: scratch, guard, .. } = self;
        let Rows { x, states, actions, d, .. } = scratch;
        let (kernel, rows) = (workspace.kernel, batch.rows);
        join_rows(x, rows, &batch.states, latents);
        let decoded = self.decoder.forward(kernel, x, rows, &mut workspace.actor);
        actions.clear();
        actions.extend_from_slice(decoded);
        join_rows(states, rows, &batch.states, actions);
        let moves = self.perturbation.forward(kernel, states, rows, &mut workspace.actor);
        perturb(actions, moves, config.perturbation);
        join_rows(x, rows, &batch.states, actions);
        let (value, _) = self.critic.first_values(x, rows, workspace);
        d.clear();
        d.resize(actions.len(), 0.0);
        self.critic.by_action(x, rows, -1.0 / rows as f32, d, workspace);
        for (d, action) in d.iter_mut().zip(actions.iter()) {
            // No slope where the action is cut to its box.
            *d *= if action.abs() < 1.0 { config.perturbation } else { 0.0 };
        }
        guard.finite("perturbation loss", d)?;
        let grads = workspace.actor_grads.at_least(self.perturbation.network.params().len());
        self.perturbation.backward(
            kernel,
            InputRows { x: states, rows },
            &mut workspace.actor,
            d,
            grads,
        );
        self.perturbation.step(kernel, config.learning_rate, 1.0, grads, guard)?;
        guard.finite("perturbation weights", self.perturbation.network.params())?;
        guard.finite("perturbation target weights", self.perturbation_target.params())?;
        Ok(f64::from(value))
    }
}

fn clip_latents(latents: &mut [f32]) {
    latents.iter_mut().for_each(|latent| *latent = latent.clamp(-LATENT_CLIP, LATENT_CLIP));
}

/// Moves actions by a part of `moves` and keeps them in [-1, 1].
pub(crate) fn perturb(actions: &mut [f32], moves: &[f32], largest: f32) {
    for (action, change) in actions.iter_mut().zip(moves) {
        *action = (*action + largest * change).clamp(-1.0, 1.0);
    }
}

impl OfflineLearner for Bcq {
    fn learn(&mut self, data: &OfflineDataset, workspace: &mut Workspace) -> Result<Learned> {
        data.require_filled(&self.context)?;
        self.guard.step += 1;
        self.batch.draw(data, self.config.minibatch, &mut self.rng);
        let count = self.noise_len(self.batch.rows);
        draw_normals(&mut self.noise, count, &mut self.rng);
        self.update(workspace)
    }

    fn steps(&self) -> u64 {
        self.guard.step
    }

    fn policy(&self) -> Policy {
        let model = ConstrainedModel {
            decoder: self.decoder.network.clone(),
            perturbation: self.perturbation.network.clone(),
            critic: self.critic.first().clone(),
            latents: self.served_latents.clone(),
            largest_move: self.config.perturbation,
        };
        Policy::constrained(&self.context.spec, "bcq", model)
    }

    fn bytes(&self) -> usize {
        let networks = [&self.encoder, &self.decoder, &self.perturbation];
        networks.map(OptimizedNetwork::bytes).iter().sum::<usize>()
            + self.perturbation_target.bytes()
            + self.critic.bytes()
            + self.batch.bytes()
    }
}

impl Persist for Bcq {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.encoder.save(&format!("{name}/encoder"), out);
        self.decoder.save(&format!("{name}/decoder"), out);
        self.perturbation.save(&format!("{name}/perturbation"), out);
        self.perturbation_target.save(&format!("{name}/perturbation_target"), out);
        self.critic.save(&format!("{name}/critic"), out);
        out.put_f32(&format!("{name}/served_latents"), self.served_latents.as_slice());
        self.rng.save(&format!("{name}/rng"), out);
        out.put_u64(&format!("{name}/clock"), [self.guard.step]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.encoder.load(&format!("{name}/encoder"), from)?;
        self.decoder.load(&format!("{name}/decoder"), from)?;
        self.perturbation.load(&format!("{name}/perturbation"), from)?;
        self.perturbation_target.load(&format!("{name}/perturbation_target"), from)?;
        self.critic.load(&format!("{name}/critic"), from)?;
        let latents = from.f32s(&format!("{name}/served_latents"), self.served_latents.len())?;
        self.served_latents.copy_from_slice(latents);
        self.rng.load(&format!("{name}/rng"), from)?;
        self.guard.step = from.u64s(&format!("{name}/clock"), 1)?[0];
        Ok(())
    }
}
