//! Networks and heads with random numbers in them, and the calls under test wrapped
//! so that every test makes them alike.

use std::sync::Arc;

use homeostat_core::Stream;
use homeostat_nn::{
    Activation, Head, HeadScratch, Init, InputRows, Kernel, MlpShape, Network, Tape,
};
use proptest::prelude::*;

use crate::reference::ReferenceMlp;

pub(crate) fn widen(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().copied().map(f64::from).collect()
}

pub(crate) fn numbers(rng: &mut Stream, len: usize, bound: f64) -> Vec<f32> {
    (0..len).map(|_| rng.range(-bound, bound) as f32).collect()
}

/// A flat run of a shape's parameters or gradients, as PyTorch orders them.
pub(crate) fn in_pytorch_order(shape: &MlpShape, flat: &[f32]) -> Vec<f32> {
    let mut network = zero_network(shape);
    network.params_mut().copy_from_slice(flat);
    let mut ordered = Vec::new();
    for index in 0..network.layer_count() {
        let (weights, bias, _) = network.layer(index);
        ordered.extend(weights);
        ordered.extend(bias);
    }
    ordered
}

/// The network whose parameters, in PyTorch's order, are these.
pub(crate) fn network_from_pytorch_order(shape: &MlpShape, ordered: &[f32]) -> Network {
    let mut network = zero_network(shape);
    let mut rest = ordered;
    for index in 0..network.layer_count() {
        let (_, _, [outputs, inputs]) = network.layer(index);
        let (weights, after) = rest.split_at(outputs * inputs);
        let (bias, after) = after.split_at(outputs);
        network.set_layer(index, weights, bias);
        rest = after;
    }
    assert!(rest.is_empty(), "{} parameters too many for {shape}", rest.len());
    network
}

pub(crate) fn zero_network(shape: &MlpShape) -> Network {
    let zeros = Init::Orthogonal { hidden: 0.0, output: 0.0 };
    Network::new(Arc::new(shape.clone()), 0, zeros, &mut Stream::from_seed(0))
}

/// A network, a batch of inputs for it, and the gradient of a loss with respect to
/// each output.
#[derive(Debug, Clone)]
pub(crate) struct MlpBatch {
    pub(crate) mlp: ReferenceMlp,
    pub(crate) network: Network,
    pub(crate) rows: usize,
    pub(crate) x: Vec<f32>,
    pub(crate) d_output: Vec<f32>,
}

/// What the two passes compute.
#[derive(Debug)]
pub(crate) struct MlpResults {
    pub(crate) output: Vec<f32>,
    /// As the crate lays it out, gaps of alignment included.
    pub(crate) flat_gradient: Vec<f32>,
    pub(crate) d_input: Vec<f32>,
}

impl MlpBatch {
    /// Weights within one over the root of the fan-in keep every sum near one, so
    /// that neither tanh saturates nor rounding is amplified.
    pub(crate) fn random(mlp: ReferenceMlp, rows: usize, seed: u64) -> Self {
        let shape = MlpShape::new(&mlp.widths, mlp.activation, mlp.output_activation)
            .expect("no width is zero");
        let mut rng = Stream::from_seed(seed);
        let x = numbers(&mut rng, rows * shape.inputs(), 1.0);
        let d_output = numbers(&mut rng, rows * shape.outputs(), 1.0);
        let network = Network::new(Arc::new(shape), 0, Init::UniformFanIn, &mut rng);
        Self { mlp, network, rows, x, d_output }
    }

    /// Every buffer that is to be written starts as NaN: what is not written, or is
    /// added to, shows.
    pub(crate) fn run(&self, kernel: Kernel, tape: &mut Tape) -> MlpResults {
        let Self { network, rows, x, d_output, .. } = self;
        let shape = network.shape();
        let output = network.forward(kernel, x, *rows, tape).to_vec();
        let mut flat_gradient = vec![f32::NAN; shape.parameter_count()];
        let mut d_input = vec![f32::NAN; x.len()];
        shape.backward(
            kernel,
            network.params(),
            InputRows { x, rows: *rows },
            tape,
            d_output,
            Some(&mut flat_gradient),
            Some(&mut d_input),
        );
        // The gradient by the input alone is the same.
        let mut alone = vec![f32::NAN; x.len()];
        let input = InputRows { x, rows: *rows };
        shape.backward(kernel, network.params(), input, tape, d_output, None, Some(&mut alone));
        let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&alone), bits(&d_input));
        MlpResults { output, flat_gradient, d_input }
    }
}

/// A head, rows of network outputs and actions for it, and the gradient of a loss
/// with respect to each log-probability and to the entropies.
#[derive(Debug, Clone)]
pub(crate) struct HeadBatch {
    pub(crate) head: Head,
    pub(crate) outputs: Vec<f32>,
    pub(crate) extra: Vec<f32>,
    pub(crate) actions: Vec<f32>,
    pub(crate) d_log_prob: Vec<f32>,
    pub(crate) d_entropy: f32,
}

/// What a head computes.
#[derive(Debug)]
pub(crate) struct HeadResults {
    pub(crate) log_prob: Vec<f32>,
    pub(crate) entropy: Vec<f32>,
    pub(crate) d_outputs: Vec<f32>,
    pub(crate) d_extra: Vec<f32>,
}

impl HeadBatch {
    pub(crate) fn random(head: Head, rows: usize, seed: u64) -> Self {
        let mut rng = Stream::from_seed(seed);
        let outputs = numbers(&mut rng, rows * head.outputs(), 3.0);
        let extra = numbers(&mut rng, head.extra(), 1.0);
        let mut actions = Vec::new();
        for row in outputs.chunks_exact(head.outputs()) {
            match &head {
                Head::Categorical(choices) => {
                    actions.extend(choices.iter().map(|choices| rng.below(*choices) as f32));
                }
                Head::Gaussian(_) => {
                    let mut draw = |log_std: &f32| log_std.exp() * rng.range(-3.0, 3.0) as f32;
                    actions.extend(row.iter().zip(&extra).map(|(mean, s)| mean + draw(s)));
                }
            }
        }
        let d_log_prob = numbers(&mut rng, rows, 1.0);
        let d_entropy = rng.range(-1.0, 1.0) as f32;
        Self { head, outputs, extra, actions, d_log_prob, d_entropy }
    }

    /// Written buffers start as NaN here too; see [`MlpBatch::run`].
    pub(crate) fn run(&self, kernel: Kernel, scratch: &mut HeadScratch) -> HeadResults {
        let Self { head, outputs, extra, actions, d_log_prob, d_entropy } = self;
        head.evaluate(kernel, outputs, extra, actions, scratch);
        let mut d_outputs = vec![f32::NAN; outputs.len()];
        let mut d_extra = vec![f32::NAN; extra.len()];
        head.gradient(
            outputs,
            extra,
            actions,
            d_log_prob,
            *d_entropy,
            scratch,
            &mut d_outputs,
            &mut d_extra,
        );
        HeadResults {
            log_prob: scratch.log_prob.clone(),
            entropy: scratch.entropy.clone(),
            d_outputs,
            d_extra,
        }
    }
}

/// Zero to three hidden layers, narrow and wide, on and off the multiples of the
/// sixteen lanes of a vector.
pub(crate) fn mlp_batches() -> impl Strategy<Value = MlpBatch> {
    let width = prop_oneof![6 => 1usize..40, 1 => Just(16), 1 => Just(32)];
    let activation = prop_oneof![Just(Activation::Tanh), Just(Activation::Relu)];
    let output_activation = prop_oneof![Just(Activation::Identity), Just(Activation::Tanh)];
    let widths = prop::collection::vec(width, 2..=5);
    (widths, activation, output_activation, 1usize..=12, any::<u64>()).prop_map(
        |(widths, activation, output_activation, rows, seed)| {
            MlpBatch::random(ReferenceMlp { widths, activation, output_activation }, rows, seed)
        },
    )
}

/// One question, several questions, and continuous actions.
pub(crate) fn head_batches() -> impl Strategy<Value = HeadBatch> {
    let head = prop_oneof![
        (1usize..40).prop_map(|choices| Head::Categorical(vec![choices])),
        prop::collection::vec(1usize..20, 2..=5).prop_map(Head::Categorical),
        (1usize..20).prop_map(Head::Gaussian),
    ];
    (head, 1usize..=12, any::<u64>())
        .prop_map(|(head, rows, seed)| HeadBatch::random(head, rows, seed))
}
