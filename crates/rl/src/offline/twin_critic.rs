//! Two critics of state and action with slow copies: the smaller of two values overestimates less
//! (Fujimoto et al., 2018).

use std::sync::Arc;

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_nn::{Activation, AdamConfig, Init, InputRows, Kernel, MlpShape, Network};

use crate::learner::Guard;
use crate::optimized_network::OptimizedNetwork;
use crate::{Result, Workspace};

/// The critics. A row of theirs is the state followed by the action.
pub(crate) struct TwinCritic {
    online: [OptimizedNetwork; 2],
    target: [Network; 2],
}

impl TwinCritic {
    pub(crate) fn new(inputs: usize, hidden: &[usize], weights: &mut Stream) -> Result<Self> {
        let networks =
            [perceptron(inputs, hidden, 1, weights)?, perceptron(inputs, hidden, 1, weights)?];
        Ok(Self {
            online: networks
                .clone()
                .map(|network| OptimizedNetwork::new("critic", network, AdamConfig::default())),
            target: networks,
        })
    }

    /// The first critic, which policies climb.
    pub(crate) fn first(&self) -> &Network {
        &self.online[0].network
    }

    /// Values of both slow copies, in `values`.
    pub(crate) fn target_values(
        &self,
        x: &[f32],
        rows: usize,
        values: &mut [Vec<f32>; 2],
        workspace: &mut Workspace,
    ) {
        for (network, values) in self.target.iter().zip(values) {
            values.clear();
            let forward = network.forward(workspace.kernel, x, rows, &mut workspace.target);
            values.extend_from_slice(forward);
        }
    }

    /// A step of each critic towards `targets`, by squared error. Returns the sum of both losses.
    pub(crate) fn regress(
        &mut self,
        x: &[f32],
        targets: &[f32],
        learning_rate: f32,
        guard: &Guard,
        workspace: &mut Workspace,
    ) -> Result<f64> {
        let Workspace { kernel, critic, critic_grads, d_output, .. } = workspace;
        let (rows, scale) = (targets.len(), 1.0 / targets.len() as f32);
        let mut loss = 0.0;
        for network in &mut self.online {
            let values = network.forward(*kernel, x, rows, critic);
            let d = d_output.at_least(rows);
            for ((d, value), target) in d.iter_mut().zip(values).zip(targets) {
                let error = value - target;
                loss += f64::from(error * error * scale);
                *d = 2.0 * error * scale;
            }
            guard.finite("critic loss", d)?;
            let grads = critic_grads.at_least(network.network.params().len());
            network.backward(*kernel, InputRows { x, rows }, critic, d, grads);
            network.step(*kernel, learning_rate, 1.0, grads, guard)?;
        }
        Ok(loss)
    }

    /// The mean of the first critic's values and of their sizes.
    pub(crate) fn first_values(
        &self,
        x: &[f32],
        rows: usize,
        workspace: &mut Workspace,
    ) -> (f32, f32) {
        let values = self.first().forward(workspace.kernel, x, rows, &mut workspace.critic);
        let mean = |sum: f32| sum / rows as f32;
        (mean(values.iter().sum()), mean(values.iter().map(|value| value.abs()).sum()))
    }

    /// The gradient of `factor` times the sum of the first critic's values by the action, after
    /// [`TwinCritic::first_values`] of the same rows.
    pub(crate) fn by_action(
        &self,
        x: &[f32],
        rows: usize,
        factor: f32,
        d_actions: &mut [f32],
        workspace: &mut Workspace,
    ) {
        let Workspace { kernel, critic, d_output, d_input, .. } = workspace;
        let d = d_output.at_least(rows);
        d.fill(factor);
        let d_x = d_input.at_least(x.len());
        let network = self.first();
        let (shape, params) = (network.shape(), network.params());
        shape.backward(*kernel, params, InputRows { x, rows }, critic, d, None, Some(d_x));
        let (width, action_len) = (x.len() / rows, d_actions.len() / rows);
        for (d, row) in d_actions.chunks_exact_mut(action_len).zip(d_x.chunks_exact(width)) {
            d.copy_from_slice(&row[width - action_len..]);
        }
    }

    /// Moves the slow copies.
    pub(crate) fn follow(&mut self, kernel: Kernel, rate: f32) {
        for (target, online) in self.target.iter_mut().zip(&self.online) {
            target.follow(kernel, rate, &online.network);
        }
    }

    /// Checks the slow copies too: the smaller of a number and NaN is the number, so that a loss
    /// would not show it.
    pub(crate) fn require_finite(&self, guard: &Guard) -> Result<()> {
        for (online, target) in self.online.iter().zip(&self.target) {
            guard.finite("critic weights", online.network.params())?;
            guard.finite("critic target weights", target.params())?;
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.online.iter().map(OptimizedNetwork::bytes).sum::<usize>()
            + self.target.iter().map(Network::bytes).sum::<usize>()
    }
}

/// A perceptron with relu layers and PyTorch's first weights, as the three papers' code has it.
pub(crate) fn perceptron(
    inputs: usize,
    hidden: &[usize],
    outputs: usize,
    weights: &mut Stream,
) -> Result<Network> {
    network(inputs, hidden, outputs, Activation::Identity, weights)
}

/// The same with outputs in [-1, 1].
pub(crate) fn bounded_perceptron(
    inputs: usize,
    hidden: &[usize],
    outputs: usize,
    weights: &mut Stream,
) -> Result<Network> {
    network(inputs, hidden, outputs, Activation::Tanh, weights)
}

fn network(
    inputs: usize,
    hidden: &[usize],
    outputs: usize,
    last: Activation,
    weights: &mut Stream,
) -> Result<Network> {
    let widths = [&[inputs], hidden, &[outputs]].concat();
    let shape = Arc::new(MlpShape::new(&widths, Activation::Relu, last)?);
    Ok(Network::new(shape, 0, Init::UniformFanIn, weights))
}

impl Persist for TwinCritic {
    fn save(&self, name: &str, out: &mut Snapshot) {
        for (index, (online, target)) in self.online.iter().zip(&self.target).enumerate() {
            online.save(&format!("{name}/{index}"), out);
            target.save(&format!("{name}_target/{index}"), out);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        for (index, (online, target)) in self.online.iter_mut().zip(&mut self.target).enumerate() {
            online.load(&format!("{name}/{index}"), from)?;
            target.load(&format!("{name}_target/{index}"), from)?;
        }
        Ok(())
    }
}
