//! A network and the optimiser that moves it.

use std::sync::Arc;

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_nn::{
    Activation, Adam, AdamConfig, Head, Init, InputRows, Kernel, MlpShape, Network, Tape,
};

use crate::Result;
use crate::learner::Guard;

/// A network in training.
#[derive(Debug, Clone)]
pub(crate) struct OptimizedNetwork {
    /// What errors call it.
    name: &'static str,
    pub(crate) network: Network,
    adam: Adam,
}

impl OptimizedNetwork {
    pub(crate) fn new(name: &'static str, network: Network, config: AdamConfig) -> Self {
        let adam = Adam::new(config, network.params().len());
        Self { name, network, adam }
    }

    pub(crate) fn forward<'t>(
        &self,
        kernel: Kernel,
        x: &[f32],
        rows: usize,
        tape: &'t mut Tape,
    ) -> &'t [f32] {
        self.network.forward(kernel, x, rows, tape)
    }

    /// The gradient by every weight and bias; what `grads` has beyond belongs to the head.
    pub(crate) fn backward(
        &self,
        kernel: Kernel,
        input: InputRows<'_>,
        tape: &mut Tape,
        d_output: &[f32],
        grads: &mut [f32],
    ) {
        self.backward_to_inputs(kernel, input, tape, d_output, grads, None);
    }

    /// The same, and the gradient by every input, if asked for.
    pub(crate) fn backward_to_inputs(
        &self,
        kernel: Kernel,
        input: InputRows<'_>,
        tape: &mut Tape,
        d_output: &[f32],
        grads: &mut [f32],
        d_input: Option<&mut [f32]>,
    ) {
        let shape = self.network.shape();
        let grads = &mut grads[..shape.parameter_count()];
        shape.backward(kernel, self.network.params(), input, tape, d_output, Some(grads), d_input);
    }

    /// Moves against `grads` times `factor`.
    pub(crate) fn step(
        &mut self,
        kernel: Kernel,
        learning_rate: f32,
        factor: f32,
        grads: &[f32],
        guard: &Guard,
    ) -> Result<()> {
        if self.adam.step(kernel, learning_rate, factor, grads, self.network.params_mut()) {
            return Ok(());
        }
        Err(guard.not_finite(format!("{} gradient", self.name), f32::NAN))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.network.bytes() + self.adam.bytes()
    }
}

impl Persist for OptimizedNetwork {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.network.save(name, out);
        self.adam.save(&format!("{name}_adam"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.network.load(name, from)?;
        self.adam.load(&format!("{name}_adam"), from)
    }
}

/// A fresh policy network for `head` and a fresh value network beside it, with the same
/// hidden layers; `features` are those that each of the two sees.
pub(crate) fn policy_and_value(
    features: [usize; 2],
    head: &Head,
    hidden: &[usize],
    activation: Activation,
    weights: &mut Stream,
) -> Result<(Network, Network)> {
    let shape = |features: usize, outputs: usize| -> Result<_> {
        let widths = [&[features], hidden, &[outputs]].concat();
        Ok(Arc::new(MlpShape::new(&widths, activation, Activation::Identity)?))
    };
    // A policy that starts out even explores best; a value has no such reason.
    let policy = Network::new(
        shape(features[0], head.outputs())?,
        head.extra(),
        Init::orthogonal(0.01),
        weights,
    );
    let value = Network::new(shape(features[1], 1)?, 0, Init::orthogonal(1.0), weights);
    Ok((policy, value))
}
