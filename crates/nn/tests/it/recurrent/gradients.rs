//! Values and gradients against the reference's slopes and against PyTorch.

use std::cmp::Reverse;

use homeostat_core::Stream;
use homeostat_nn::{Cell, Kernel, RecurrentConfig, RecurrentTape};
use proptest::prelude::*;
use serde::Deserialize;

use super::examples::{
    RecurrentBatch, in_pytorch_order, network_from_pytorch_order, recurrent_batches,
};
use super::reference;
use crate::closeness::assert_close;
use crate::examples::widen;
use crate::finite_differences::{slopes, weighted_sum};
use crate::pytorch::cases;

/// Rounding of single precision, with room to spare.
const TOLERANCE: f64 = 2e-5;

/// Outputs and last hidden states of all sequences, as the crate lays them out; zero
/// in padding.
fn reference_pass(
    batch: &RecurrentBatch,
    parameters: &[f64],
    x: &[f64],
    initial: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let shape = batch.network.shape();
    let RecurrentConfig { inputs, hidden, .. } = *shape.config();
    let (outputs, count) = (shape.outputs(), batch.lengths.len());
    let dropout = dropout_factors(batch);
    let mut output = vec![0.0; batch.d_output.len()];
    let mut last = vec![0.0; initial.len()];
    for (sequence, length) in batch.lengths.iter().enumerate() {
        let rows: Vec<Vec<f64>> = (0..*length)
            .map(|step| x[(step * count + sequence) * inputs..][..inputs].to_vec())
            .collect();
        let states: Vec<Vec<f64>> = (0..shape.state_len() / hidden)
            .map(|state| initial[(state * count + sequence) * hidden..][..hidden].to_vec())
            .collect();
        let factors = dropout.as_ref().map(|factors| factors[sequence].as_slice());
        let trace = reference::forward(shape.config(), parameters, &rows, &states, factors);
        for (step, row) in trace.output.iter().enumerate() {
            output[(step * count + sequence) * outputs..][..outputs].copy_from_slice(row);
        }
        for (state, row) in trace.last.iter().enumerate() {
            last[(state * count + sequence) * hidden..][..hidden].copy_from_slice(row);
        }
    }
    (output, last)
}

/// `[sequence][layer][step][unit]`: zero with the probability of dropout. Drawn layer
/// by layer and step by step, for the longest sequence first, padding left out.
#[expect(clippy::needless_range_loop, reason = "indices in the order of the draws")]
fn dropout_factors(batch: &RecurrentBatch) -> Option<Vec<Vec<Vec<Vec<f64>>>>> {
    let shape = batch.network.shape();
    let RecurrentConfig { layers, dropout, .. } = *shape.config();
    if dropout == 0.0 {
        return None;
    }
    let mut order: Vec<usize> = (0..batch.lengths.len()).collect();
    order.sort_by_key(|sequence| Reverse(batch.lengths[*sequence]));
    let mut rng = Stream::from_seed(batch.dropout_seed);
    let mut factors = vec![vec![Vec::new(); layers]; batch.lengths.len()];
    for layer in 0..layers - 1 {
        for step in 0..batch.lengths[order[0]] {
            for sequence in order.iter().filter(|sequence| batch.lengths[**sequence] > step) {
                let mut factor = || {
                    let is_kept = rng.uniform() >= f64::from(dropout);
                    if is_kept { 1.0 / (1.0 - f64::from(dropout)) } else { 0.0 }
                };
                factors[*sequence][layer].push((0..shape.outputs()).map(|_| factor()).collect());
            }
        }
    }
    Some(factors)
}

/// Padding, where nothing is defined, made zero.
fn without_nan(numbers: &[f32]) -> Vec<f32> {
    numbers.iter().map(|number| if number.is_nan() { 0.0 } else { *number }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn recurrent_networks_follow_the_slopes_of_their_loss(batch in recurrent_batches()) {
        let network = &batch.network;
        let parameters = widen(&in_pytorch_order(network, network.params()));
        let (x, initial) = (widen(&without_nan(&batch.x)), widen(&batch.initial));
        let d_output = without_nan(&batch.d_output);
        let loss = |parameters: &[f64], x: &[f64], initial: &[f64]| {
            let (output, last) = reference_pass(&batch, parameters, x, initial);
            weighted_sum(&d_output, &output) + weighted_sum(&batch.d_last, &last)
        };
        let (output, last) = reference_pass(&batch, &parameters, &x, &initial);
        let d_parameters = slopes(&parameters, |parameters| loss(parameters, &x, &initial));
        let d_input = slopes(&x, |x| loss(&parameters, x, &initial));
        let d_initial = slopes(&initial, |initial| loss(&parameters, &x, initial));
        for kernel in Kernel::available() {
            let got = batch.run(kernel, &mut RecurrentTape::default());
            let check = |what: &str, got: &[f32], expect: &[f64]| {
                assert_close(&format!("{kernel} {what}"), got, expect, TOLERANCE);
            };
            check("output", &got.output, &output);
            check("last hidden state", &got.last, &last);
            let gradient = in_pytorch_order(network, &got.flat_gradient);
            check("parameter gradient", &gradient, &d_parameters);
            check("input gradient", &got.d_input, &d_input);
            check("initial state gradient", &got.d_initial, &d_initial);
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecurrentCase {
    cell: Cell,
    inputs: usize,
    hidden: usize,
    layers: usize,
    bidirectional: bool,
    lengths: Vec<usize>,
    parameters: Vec<f32>,
    x: Vec<f32>,
    initial: Vec<f32>,
    d_output: Vec<f32>,
    d_last: Vec<f32>,
    output: Vec<f64>,
    last: Vec<f64>,
    d_parameters: Vec<f64>,
    d_input: Vec<f64>,
    d_initial: Vec<f64>,
}

#[test]
fn recurrent_networks_agree_with_pytorch_forward_and_backward() {
    for case in cases::<RecurrentCase>(include_str!("../../fixtures/recurrent.json")) {
        let RecurrentCase { cell, inputs, hidden, layers, bidirectional, .. } = case;
        let config = RecurrentConfig { cell, inputs, hidden, layers, bidirectional, dropout: 0.0 };
        let batch = RecurrentBatch {
            network: network_from_pytorch_order(config, &case.parameters),
            lengths: case.lengths,
            x: case.x,
            initial: case.initial,
            d_output: case.d_output,
            d_last: case.d_last,
            dropout_seed: 0,
        };
        for kernel in Kernel::available() {
            let got = batch.run(kernel, &mut RecurrentTape::default());
            let check = |what: &str, got: &[f32], expect: &[f64]| {
                assert_close(&format!("{kernel} {config:?} {what}"), got, expect, 1e-5);
            };
            check("output", &got.output, &case.output);
            check("last hidden state", &got.last, &case.last);
            let gradient = in_pytorch_order(&batch.network, &got.flat_gradient);
            check("parameter gradient", &gradient, &case.d_parameters);
            check("input gradient", &got.d_input, &case.d_input);
            check("initial state gradient", &got.d_initial, &case.d_initial);
        }
    }
}
