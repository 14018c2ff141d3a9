//! What the crate should compute, in double precision and in loops that read like
//! the formulas. Nothing here is shared with the crate under test except the names
//! of activations and heads.
#![expect(clippy::needless_range_loop, reason = "indices as in the formulas")]

use homeostat_nn::{Activation, Head};

/// A perceptron whose parameters lie in PyTorch's order: for each layer the weights
/// as `[out][in]`, then the bias.
#[derive(Debug, Clone)]
pub(crate) struct ReferenceMlp {
    pub(crate) widths: Vec<usize>,
    pub(crate) activation: Activation,
    pub(crate) output_activation: Activation,
}

impl ReferenceMlp {
    pub(crate) fn layer_count(&self) -> usize {
        self.widths.len() - 1
    }

    /// Outputs for one row of inputs.
    pub(crate) fn forward(&self, parameters: &[f64], x: &[f64]) -> Vec<f64> {
        let mut values = x.to_vec();
        for layer in 0..self.layer_count() {
            values = self.sums(parameters, layer, &values);
            for value in &mut values {
                *value = activate(self.activation_after(layer), *value);
            }
        }
        values
    }

    /// What a layer's activation is applied to, given the outputs of the layer below.
    pub(crate) fn sums(&self, parameters: &[f64], layer: usize, below: &[f64]) -> Vec<f64> {
        let (inputs, outputs) = (self.widths[layer], self.widths[layer + 1]);
        let weights = &parameters[self.layer_start(layer)..];
        let bias = &parameters[self.bias_start(layer)..];
        let mut sums = vec![0.0; outputs];
        for o in 0..outputs {
            sums[o] = bias[o];
            for i in 0..inputs {
                sums[o] += weights[o * inputs + i] * below[i];
            }
        }
        sums
    }

    pub(crate) fn activation_after(&self, layer: usize) -> Activation {
        if layer + 1 == self.layer_count() { self.output_activation } else { self.activation }
    }

    pub(crate) fn bias_start(&self, layer: usize) -> usize {
        self.layer_start(layer) + self.widths[layer] * self.widths[layer + 1]
    }

    fn layer_start(&self, layer: usize) -> usize {
        (0..layer).map(|below| (self.widths[below] + 1) * self.widths[below + 1]).sum()
    }
}

pub(crate) fn activate(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::Tanh => x.tanh(),
    }
}

/// Probability of each choice of one question.
pub(crate) fn probabilities(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut total = 0.0;
    for logit in logits {
        total += (logit - largest).exp();
    }
    logits.iter().map(|logit| (logit - largest).exp() / total).collect()
}

/// Log-probability of one row's action.
pub(crate) fn log_prob(head: &Head, outputs: &[f64], extra: &[f64], action: &[f64]) -> f64 {
    let mut log_prob = 0.0;
    match head {
        Head::Categorical(choices) => {
            let mut start = 0;
            for question in 0..choices.len() {
                let logits = &outputs[start..start + choices[question]];
                log_prob += probabilities(logits)[action[question] as usize].ln();
                start += choices[question];
            }
        }
        Head::Gaussian(len) => {
            for i in 0..*len {
                let deviation = extra[i].exp();
                let z = (action[i] - outputs[i]) / deviation;
                let density =
                    (-0.5 * z * z).exp() / (deviation * (2.0 * std::f64::consts::PI).sqrt());
                log_prob += density.ln();
            }
        }
    }
    log_prob
}

/// Entropy of one row's distribution.
pub(crate) fn entropy(head: &Head, outputs: &[f64], extra: &[f64]) -> f64 {
    let mut entropy = 0.0;
    match head {
        Head::Categorical(choices) => {
            let mut start = 0;
            for question in 0..choices.len() {
                for p in probabilities(&outputs[start..start + choices[question]]) {
                    entropy -= p * p.ln();
                }
                start += choices[question];
            }
        }
        Head::Gaussian(len) => {
            for i in 0..*len {
                let variance = extra[i].exp() * extra[i].exp();
                entropy += 0.5 * (2.0 * std::f64::consts::PI * std::f64::consts::E * variance).ln();
            }
        }
    }
    entropy
}
