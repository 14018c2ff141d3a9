//! From network outputs to actions, log-probabilities and entropies, and back:
//! the gradients of both with respect to the outputs.

use std::ops::Range;

use homeostat_core::Stream;

use crate::Kernel;

/// A distribution over actions. An action is a row of floats: the index of each
/// choice, or each continuous value.
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// One choice in each component; the outputs are the logits of all choices, component after
    /// component.
    Categorical(Vec<usize>),
    /// Independent normal values. The outputs are the means; the standard deviations are
    /// parameters of the head (`extra` holds their logarithms).
    Gaussian(usize),
}

/// Results of a head for each row, and its scratch space.
#[derive(Debug, Clone, Default)]
pub struct HeadScratch {
    /// Log-probability of each row's action.
    pub log_prob: Vec<f32>,
    /// Entropy of each row's distribution.
    pub entropy: Vec<f32>,
    log_probs: Vec<f32>,
    probs: Vec<f32>,
}

const HALF_LOG_TWO_PI: f32 = 0.918_938_5;

impl Head {
    /// Network outputs that the head needs.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Categorical(choices) => choices.iter().sum(),
            Self::Gaussian(len) => *len,
        }
    }

    /// Number of the head's own parameters.
    pub fn extra(&self) -> usize {
        match self {
            Self::Categorical(_) => 0,
            Self::Gaussian(len) => *len,
        }
    }

    /// Number of floats in one action.
    pub fn action_len(&self) -> usize {
        match self {
            Self::Categorical(choices) => choices.len(),
            Self::Gaussian(len) => *len,
        }
    }

    /// The most probable action for one row of outputs.
    pub fn mode(&self, outputs: &[f32], action: &mut [f32]) {
        match self {
            Self::Categorical(choices) => {
                for (group, action) in groups(choices).zip(action) {
                    *action = argmax(&outputs[group]) as f32;
                }
            }
            Self::Gaussian(len) => action.copy_from_slice(&outputs[..*len]),
        }
    }

    /// Draws one action per row of `outputs` into `actions`, and stores their log-probabilities in
    /// `scratch.log_prob`.
    pub fn sample(
        &self,
        kernel: Kernel,
        outputs: &[f32],
        extra: &[f32],
        rng: &mut Stream,
        actions: &mut [f32],
        scratch: &mut HeadScratch,
    ) {
        let rows = outputs.chunks_exact(self.outputs());
        match self {
            Self::Categorical(choices) => {
                scratch.softmax(kernel, choices, outputs);
                for (row, action) in actions.chunks_exact_mut(choices.len()).enumerate() {
                    let probs = &scratch.probs[row * self.outputs()..];
                    for (group, action) in groups(choices).zip(action) {
                        *action = draw(&probs[group], rng.uniform() as f32) as f32;
                    }
                }
            }
            Self::Gaussian(len) => {
                for (means, action) in rows.zip(actions.chunks_exact_mut(*len)) {
                    for ((mean, log_std), action) in means.iter().zip(extra).zip(action) {
                        *action = mean + log_std.exp() * rng.normal() as f32;
                    }
                }
            }
        }
        self.score(outputs, extra, actions, scratch);
    }

    /// Stores the log-probability of each row's action and the row's entropy in `scratch`.
    pub fn evaluate(
        &self,
        kernel: Kernel,
        outputs: &[f32],
        extra: &[f32],
        actions: &[f32],
        scratch: &mut HeadScratch,
    ) {
        if let Self::Categorical(choices) = self {
            scratch.softmax(kernel, choices, outputs);
        }
        self.score(outputs, extra, actions, scratch);
    }

    fn score(&self, outputs: &[f32], extra: &[f32], actions: &[f32], scratch: &mut HeadScratch) {
        scratch.log_prob.clear();
        scratch.entropy.clear();
        let width = self.outputs();
        match self {
            Self::Categorical(choices) => {
                let rows =
                    scratch.log_probs.chunks_exact(width).zip(scratch.probs.chunks_exact(width));
                for ((log_probs, probs), action) in rows.zip(actions.chunks_exact(choices.len())) {
                    let chosen = groups(choices)
                        .zip(action)
                        .map(|(group, choice)| log_probs[group][*choice as usize]);
                    scratch.log_prob.push(chosen.sum());
                    let entropy: f32 =
                        probs.iter().zip(log_probs).map(|(p, log_p)| p * log_p).sum();
                    scratch.entropy.push(-entropy);
                }
            }
            Self::Gaussian(len) => {
                let entropy = extra.iter().map(|log_std| log_std + HALF_LOG_TWO_PI + 0.5).sum();
                for (means, action) in outputs.chunks_exact(*len).zip(actions.chunks_exact(*len)) {
                    let mut log_prob = 0.0;
                    for ((mean, action), log_std) in means.iter().zip(action).zip(extra) {
                        let z = (action - mean) * (-log_std).exp();
                        log_prob -= 0.5 * z * z + log_std + HALF_LOG_TWO_PI;
                    }
                    scratch.log_prob.push(log_prob);
                    scratch.entropy.push(entropy);
                }
            }
        }
    }

    /// The gradient of `sum over rows of d_log_prob * log_prob + d_entropy * entropy`
    /// with respect to outputs (written) and head parameters (written), after
    /// [`Head::evaluate`] of the same rows.
    #[expect(
        clippy::too_many_arguments,
        reason = "operands of one formula; a struct would only rename them"
    )]
    pub fn gradient(
        &self,
        outputs: &[f32],
        extra: &[f32],
        actions: &[f32],
        d_log_prob: &[f32],
        d_entropy: f32,
        scratch: &HeadScratch,
        d_outputs: &mut [f32],
        d_extra: &mut [f32],
    ) {
        let width = self.outputs();
        match self {
            Self::Categorical(choices) => {
                let rows =
                    actions.chunks_exact(choices.len()).zip(d_outputs.chunks_exact_mut(width));
                for (row, (action, d_outputs)) in rows.enumerate() {
                    let log_probs = &scratch.log_probs[row * width..][..width];
                    let probs = &scratch.probs[row * width..][..width];
                    for (group, choice) in groups(choices).zip(action) {
                        let (log_probs, probs) = (&log_probs[group.clone()], &probs[group.clone()]);
                        let d_outputs = &mut d_outputs[group];
                        let entropy: f32 =
                            -probs.iter().zip(log_probs).map(|(p, log_p)| p * log_p).sum::<f32>();
                        for ((d, p), log_p) in d_outputs.iter_mut().zip(probs).zip(log_probs) {
                            *d = -p * (d_log_prob[row] + d_entropy * (log_p + entropy));
                        }
                        d_outputs[*choice as usize] += d_log_prob[row];
                    }
                }
            }
            Self::Gaussian(len) => {
                d_extra.fill(d_entropy * d_log_prob.len() as f32);
                let rows = outputs.chunks_exact(*len).zip(actions.chunks_exact(*len));
                for (row, (means, action)) in rows.enumerate() {
                    for i in 0..*len {
                        let inverse = (-extra[i]).exp();
                        let z = (action[i] - means[i]) * inverse;
                        d_outputs[row * len + i] = d_log_prob[row] * z * inverse;
                        d_extra[i] += d_log_prob[row] * (z * z - 1.0);
                    }
                }
            }
        }
    }
}

impl HeadScratch {
    fn softmax(&mut self, kernel: Kernel, choices: &[usize], outputs: &[f32]) {
        if self.probs.len() < outputs.len() {
            self.probs.resize(outputs.len(), 0.0);
            self.log_probs.resize(outputs.len(), 0.0);
        }
        let width = choices.iter().sum();
        for group in groups(choices) {
            kernel.log_softmax(outputs, width, group, &mut self.log_probs, &mut self.probs);
        }
    }
}

/// The columns of each component.
fn groups(choices: &[usize]) -> impl Iterator<Item = Range<usize>> {
    choices.iter().scan(0, |start, len| {
        let group = *start..*start + len;
        *start += len;
        Some(group)
    })
}

/// Index of the largest value; the first one of equal values.
pub fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (i, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = i;
        }
    }
    best
}

/// The index at which the cumulative probability exceeds `uniform`.
fn draw(probs: &[f32], uniform: f32) -> usize {
    let mut left = uniform;
    for (i, p) in probs.iter().enumerate() {
        left -= p;
        if left < 0.0 {
            return i;
        }
    }
    // Rounding can leave a remainder: it belongs to the last choice with a positive probability.
    probs.iter().rposition(|p| *p > 0.0).unwrap_or(0)
}
