//! Fitted Q evaluation with a function that is linear in features of state and action: its fixed
//! point is the solution of one linear system (least-squares temporal differences), so that hundreds
//! of resamples cost milliseconds each. The spread of the value over resamples of whole trajectories
//! gives the interval (Hao et al., 2021).

use homeostat_core::Stream;

use super::linear::{deviation, dot, solve};
use super::{Estimate, EvaluationConfig, Prepared, interval};

/// Features of a state and an action: 1, each number, and each product of two.
pub(super) struct QFeatures {
    mean: Vec<f64>,
    deviation: Vec<f64>,
    /// Numbers that vary; a constant one adds nothing.
    varying: Vec<usize>,
}

impl QFeatures {
    pub(super) fn of(prepared: &[Prepared]) -> Self {
        let width = prepared.first().map_or(0, |one| one.steps[0].state.len());
        let rows = || prepared.iter().flat_map(|one| &one.steps);
        let count = rows().count() as f64;
        let (mut mean, mut square) = (Vec::new(), Vec::new());
        for step in rows() {
            let numbers = step.state.iter().chain(&step.recorded).chain(&step.chosen);
            mean.resize(step.state.len() + step.recorded.len() + step.chosen.len(), 0.0);
            square.resize(mean.len(), 0.0);
            for ((number, mean), square) in numbers.zip(&mut mean).zip(&mut square) {
                *mean += f64::from(*number) / count;
                *square += f64::from(*number).powi(2) / count;
            }
        }
        let spread = |k: usize| (square[k] - mean[k] * mean[k]).max(0.0).sqrt();
        let actions = (mean.len() - width) / 2;
        // An action varies if the recorded or the chosen one does, or if they differ.
        let is_varying = |k: usize| {
            let differs = k >= width && (mean[k] - mean[k + actions]).abs() > 1e-6;
            spread(k) > 1e-6 || (k >= width && spread(k + actions) > 1e-6) || differs
        };
        let varying = (0..width + actions).filter(|k| is_varying(*k)).collect();
        let deviation = (0..width + actions)
            .map(|k| if k < width { spread(k).max(1e-6) } else { 1.0 })
            .collect();
        mean.truncate(width + actions);
        // Actions have a scale already.
        mean[width..].fill(0.0);
        Self { mean, deviation, varying }
    }

    pub(super) fn len(&self) -> usize {
        let n = self.varying.len();
        1 + n + n * (n + 1) / 2
    }

    pub(super) fn write(&self, state: &[f32], action: &[f32], out: &mut Vec<f64>) {
        out.clear();
        out.push(1.0);
        let number = |k: usize| {
            let raw = if k < state.len() { state[k] } else { action[k - state.len()] };
            // Beyond four deviations a product of two would decide alone.
            ((f64::from(raw) - self.mean[k]) / self.deviation[k]).clamp(-4.0, 4.0)
        };
        out.extend(self.varying.iter().map(|k| number(*k)));
        let n = self.varying.len();
        for i in 1..=n {
            for j in i..=n {
                out.push(out[i] * out[j]);
            }
        }
    }
}

/// The sums of one block of trajectories, of which resamples are made.
struct Block {
    /// Features times features, and times the features that follow under policy and behaviour.
    squares: Vec<f64>,
    policy: Vec<f64>,
    behaviour: Vec<f64>,
    rewards: Vec<f64>,
    /// Features of first states with the action of policy and behaviour, summed.
    first_policy: Vec<f64>,
    first_behaviour: Vec<f64>,
    trajectories: f64,
    transitions: f64,
}

/// More blocks cost memory and add nothing to the spread.
const MAX_BLOCKS: usize = 200;
/// Weight of the squared coefficients for each transition: without it, a feature that varies little
/// gets any coefficient.
const RIDGE: f64 = 1e-3;

/// The systems of a dataset.
pub(super) struct FittedQ {
    blocks: Vec<Block>,
    size: usize,
    gamma: f64,
    /// Every value lies between the smallest and the largest reward.
    rewards: (f64, f64),
}

/// Estimates with intervals.
pub(super) struct Spread {
    pub(super) policy: Estimate,
    pub(super) behaviour: Estimate,
    pub(super) gain: Estimate,
}

impl FittedQ {
    pub(super) fn new(
        features: &QFeatures,
        prepared: &[Prepared],
        config: &EvaluationConfig,
    ) -> Self {
        let size = features.len();
        let count = prepared.len().min(MAX_BLOCKS);
        let mut blocks: Vec<Block> = (0..count).map(|_| Block::new(size)).collect();
        for (index, trajectory) in prepared.iter().enumerate() {
            blocks[index % count].add(features, trajectory);
        }
        let all = prepared.iter().flat_map(|one| one.steps.iter().map(|step| step.reward));
        let rewards = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), reward| {
            (low.min(reward), high.max(reward))
        });
        Self { blocks, size, gamma: config.gamma, rewards }
    }

    /// Coefficients of Q of the policy, from blocks with these weights.
    pub(super) fn coefficients(&self, weights: &[f64]) -> Vec<f64> {
        self.solve(weights, |block| &block.policy)
    }

    /// (sum of phi phi' - gamma phi phi_next' + ridge) w = (1 - gamma) sum of phi r
    fn solve(&self, weights: &[f64], following: impl Fn(&Block) -> &[f64]) -> Vec<f64> {
        let mut a = vec![0.0; self.size * self.size];
        let mut b = vec![0.0; self.size];
        let mut transitions = 0.0;
        for (block, weight) in self.blocks.iter().zip(weights).filter(|(_, weight)| **weight > 0.0)
        {
            let rows = a.iter_mut().zip(&block.squares).zip(following(block));
            for ((a, square), next) in rows {
                *a += weight * (square - self.gamma * next);
            }
            for (b, reward) in b.iter_mut().zip(&block.rewards) {
                *b += weight * (1.0 - self.gamma) * reward;
            }
            transitions += weight * block.transitions;
        }
        // The constant keeps its weight.
        for k in 1..self.size {
            a[k * self.size + k] += RIDGE * transitions;
        }
        solve(a, b)
    }

    /// Value of policy and behaviour from blocks with these weights.
    fn values(&self, weights: &[f64]) -> [f64; 2] {
        let value = |coefficients: &[f64], first: fn(&Block) -> &Vec<f64>| {
            let (mut sum, mut count) = (0.0, 0.0);
            for (block, weight) in self.blocks.iter().zip(weights) {
                sum += weight * dot(coefficients, first(block));
                count += weight * block.trajectories;
            }
            (sum / count).clamp(self.rewards.0, self.rewards.1)
        };
        let behaviour = self.solve(weights, |block| &block.behaviour);
        [
            value(&self.coefficients(weights), |block| &block.first_policy),
            value(&behaviour, |block| &block.first_behaviour),
        ]
    }

    pub(super) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// How often each block is in a resample.
    pub(super) fn resampled_weights(&self, rng: &mut Stream) -> Vec<f64> {
        let count = self.blocks.len();
        let mut weights = vec![0.0; count];
        (0..count).for_each(|_| weights[rng.below(count)] += 1.0);
        weights
    }

    /// The deviation over resamples is too small by the root of (n - 1) / n.
    pub(super) fn correction(&self) -> f64 {
        let count = self.blocks.len() as f64;
        (count / (count - 1.0)).sqrt()
    }

    /// The estimates with intervals from resamples of the blocks.
    pub(super) fn spread(&self, config: &EvaluationConfig, rng: &mut Stream) -> Spread {
        let count = self.blocks.len();
        let [policy, behaviour] = self.values(&vec![1.0; count]);
        let mut resampled = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..config.resamples {
            let [policy, behaviour] = self.values(&self.resampled_weights(rng));
            for (values, value) in resampled.iter_mut().zip([policy, behaviour, policy - behaviour])
            {
                values.push(value);
            }
        }
        let [of_policy, of_behaviour, of_gain] =
            resampled.map(|values| deviation(&values) * self.correction());
        let around = |value, spread| interval(value, spread, count - 1, config.confidence);
        Spread {
            policy: around(policy, of_policy),
            behaviour: around(behaviour, of_behaviour),
            gain: around(policy - behaviour, of_gain),
        }
    }
}

impl Block {
    fn new(size: usize) -> Self {
        let zeros = |count: usize| vec![0.0; count];
        Self {
            squares: zeros(size * size),
            policy: zeros(size * size),
            behaviour: zeros(size * size),
            rewards: zeros(size),
            first_policy: zeros(size),
            first_behaviour: zeros(size),
            trajectories: 0.0,
            transitions: 0.0,
        }
    }

    fn add(&mut self, features: &QFeatures, trajectory: &Prepared) {
        let size = self.rewards.len();
        let (mut now, mut of_policy, mut of_behaviour) = (Vec::new(), Vec::new(), Vec::new());
        for (index, step) in trajectory.steps.iter().enumerate() {
            features.write(&step.state, &step.recorded, &mut now);
            features.write(&step.next.state, &step.next.chosen, &mut of_policy);
            // Where the behaviour's next action is not known, the last one stands for it.
            let recorded = step.next.recorded.as_ref().unwrap_or(&step.recorded);
            features.write(&step.next.state, recorded, &mut of_behaviour);
            let continues = step.next.continues;
            for (i, phi) in now.iter().enumerate().filter(|(_, phi)| **phi != 0.0) {
                let row = i * size..(i + 1) * size;
                add_scaled(&mut self.squares[row.clone()], *phi, &now);
                add_scaled(&mut self.policy[row.clone()], phi * continues, &of_policy);
                add_scaled(&mut self.behaviour[row], phi * continues, &of_behaviour);
                self.rewards[i] += phi * step.reward;
            }
            if index == 0 {
                add_scaled(&mut self.first_behaviour, 1.0, &now);
                features.write(&step.state, &step.chosen, &mut now);
                add_scaled(&mut self.first_policy, 1.0, &now);
                self.trajectories += 1.0;
            }
            self.transitions += 1.0;
        }
    }
}

pub(super) fn add_scaled(to: &mut [f64], factor: f64, from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * from);
}
