//! Recurrent networks with random numbers in them, and the calls under test.

use std::sync::Arc;

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_nn::{
    Cell, Kernel, RecurrentConfig, RecurrentGradients, RecurrentInput, RecurrentNetwork,
    RecurrentShape, RecurrentTape, SequenceBatch,
};
use proptest::prelude::*;

use crate::examples::numbers;

/// A network, sequences for it, and the gradient of a loss with respect to its outputs
/// and last hidden states.
#[derive(Debug, Clone)]
pub(crate) struct RecurrentBatch {
    pub(crate) network: RecurrentNetwork,
    pub(crate) lengths: Vec<usize>,
    pub(crate) x: Vec<f32>,
    pub(crate) initial: Vec<f32>,
    pub(crate) d_output: Vec<f32>,
    pub(crate) d_last: Vec<f32>,
    /// Seed of the stream that drops outputs.
    pub(crate) dropout_seed: u64,
}

/// What the two passes compute.
#[derive(Debug)]
pub(crate) struct RecurrentResults {
    pub(crate) output: Vec<f32>,
    pub(crate) last: Vec<f32>,
    /// As the crate lays it out, gaps of alignment included.
    pub(crate) flat_gradient: Vec<f32>,
    pub(crate) d_input: Vec<f32>,
    pub(crate) d_initial: Vec<f32>,
}

impl RecurrentResults {
    /// Everything, with names.
    pub(crate) fn parts(&self) -> [(&'static str, &[f32]); 5] {
        [
            ("output", &self.output),
            ("last hidden state", &self.last),
            ("parameter gradient", &self.flat_gradient),
            ("input gradient", &self.d_input),
            ("initial state gradient", &self.d_initial),
        ]
    }
}

impl RecurrentBatch {
    /// What lies beyond the end of a sequence is NaN: it shows where it is read.
    pub(crate) fn random(config: RecurrentConfig, lengths: &[usize], seed: u64) -> Self {
        let shape = RecurrentShape::new(config).expect("no width is zero");
        let mut rng = Stream::from_seed(seed);
        let batch = SequenceBatch::new(lengths).expect("no length is zero");
        let mut padded = |width: usize| {
            let mut rows = numbers(&mut rng, batch.padded_rows() * width, 1.0);
            for (row, values) in rows.chunks_exact_mut(width).enumerate() {
                if row / lengths.len() >= lengths[row % lengths.len()] {
                    values.fill(f32::NAN);
                }
            }
            rows
        };
        let (x, d_output) = (padded(config.inputs), padded(shape.outputs()));
        let state_len = lengths.len() * shape.state_len();
        Self {
            x,
            d_output,
            initial: numbers(&mut rng, state_len, 1.0),
            d_last: numbers(&mut rng, state_len, 1.0),
            network: RecurrentNetwork::new(Arc::new(shape), &mut rng),
            lengths: lengths.to_vec(),
            dropout_seed: !seed,
        }
    }

    pub(crate) fn run(&self, kernel: Kernel, tape: &mut RecurrentTape) -> RecurrentResults {
        let Self { network, x, initial, d_output, d_last, .. } = self;
        let shape = network.shape();
        let batch = SequenceBatch::new(&self.lengths).expect("no length is zero");
        let input = RecurrentInput { x, batch: &batch, initial: Some(initial) };
        let mut rng = Stream::from_seed(self.dropout_seed);
        let output = network.forward(kernel, input, Some(&mut rng), tape).to_vec();
        let last = tape.last().to_vec();
        // What is not written, or is added to, shows as NaN.
        let mut flat_gradient = vec![f32::NAN; shape.parameter_count()];
        let mut d_input = vec![f32::NAN; x.len()];
        let mut d_initial = vec![f32::NAN; initial.len()];
        let gradients = RecurrentGradients {
            params: Some(&mut flat_gradient),
            x: Some(&mut d_input),
            initial: Some(&mut d_initial),
        };
        shape.backward(kernel, network.params(), input, tape, d_output, Some(d_last), gradients);
        RecurrentResults { output, last, flat_gradient, d_input, d_initial }
    }
}

/// A flat run of parameters or gradients, as PyTorch orders them.
pub(crate) fn in_pytorch_order(network: &RecurrentNetwork, flat: &[f32]) -> Vec<f32> {
    let mut network = network.clone();
    network.params_mut().copy_from_slice(flat);
    network.tensors().flat_map(|(_, _, values)| values).collect()
}

/// The network whose parameters, in PyTorch's order, are these.
pub(crate) fn network_from_pytorch_order(
    config: RecurrentConfig,
    mut ordered: &[f32],
) -> RecurrentNetwork {
    let shape = Arc::new(RecurrentShape::new(config).expect("the fixture has a shape"));
    let mut network = RecurrentNetwork::new(shape, &mut Stream::from_seed(0));
    let mut arrays = Snapshot::default();
    for (name, _, values) in network.tensors() {
        let (taken, rest) = ordered.split_at(values.len());
        arrays.put_f32(&format!("network/{name}"), taken);
        ordered = rest;
    }
    assert!(ordered.is_empty(), "{} parameters too many", ordered.len());
    network.load("network", &arrays).expect("all arrays are there");
    network
}

/// Both cells, one to three layers, one direction and both, with and without dropout;
/// hidden units on and off the sixteen lanes of a vector; equal and unequal lengths.
pub(crate) fn recurrent_batches() -> impl Strategy<Value = RecurrentBatch> {
    let config = (
        prop_oneof![Just(Cell::Gru), Just(Cell::Elman)],
        1usize..6,
        prop_oneof![6 => 1usize..9, 1 => Just(16), 1 => Just(19)],
        1usize..=3,
        any::<bool>(),
        prop_oneof![Just(0.0f32), Just(0.4)],
    );
    let lengths = prop_oneof![
        prop::collection::vec(1usize..6, 1..6),
        (1usize..6, 1usize..6).prop_map(|(steps, sequences)| vec![steps; sequences]),
    ];
    (config, lengths, any::<u64>()).prop_map(|(config, lengths, seed)| {
        let (cell, inputs, hidden, layers, bidirectional, dropout) = config;
        let config = RecurrentConfig { cell, inputs, hidden, layers, bidirectional, dropout };
        RecurrentBatch::random(config, &lengths, seed)
    })
}
