//! Analytic gradients equal the slopes of the reference, whatever the shape and on
//! every kernel.

use homeostat_nn::{Activation, HeadScratch, Kernel, Tape};
use proptest::prelude::*;

use crate::closeness::assert_close;
use crate::examples::{
    HeadBatch, MlpBatch, head_batches, in_pytorch_order, mlp_batches, network_from_pytorch_order,
    widen,
};
use crate::reference::{activate, entropy, log_prob};

/// Rounding of single precision, with room to spare: the largest error of three
/// thousand networks was 8e-7, that of twenty thousand heads 4e-6.
const TOLERANCE: f64 = 2e-5;

/// Half the distance between the two points of a difference.
const STEP: f64 = 1e-5;

/// How far every relu stays from its kink, where there is no slope to compare with:
/// a hundred steps.
const KINK_MARGIN: f64 = 1e-3;

/// The slope of `function` at `point` along each coordinate, by central differences.
pub(crate) fn slopes(point: &[f64], function: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut moved = point.to_vec();
    let mut slopes = Vec::new();
    for (index, centre) in point.iter().enumerate() {
        moved[index] = centre + STEP;
        let above = function(&moved);
        moved[index] = centre - STEP;
        let below = function(&moved);
        moved[index] = *centre;
        slopes.push((above - below) / (2.0 * STEP));
    }
    slopes
}

pub(crate) fn weighted_sum(weights: &[f32], values: &[f64]) -> f64 {
    weights.iter().zip(values).map(|(weight, value)| f64::from(*weight) * value).sum()
}

/// Outputs of all rows, as the reference has them.
fn reference_outputs(batch: &MlpBatch, parameters: &[f64], x: &[f64]) -> Vec<f64> {
    let rows = x.chunks_exact(batch.mlp.widths[0]);
    rows.flat_map(|row| batch.mlp.forward(parameters, row)).collect()
}

/// Raises the bias of each relu until no row of the batch is near its kink. Merely
/// skipping such cases would leave no large ones.
fn move_off_the_kinks(mut batch: MlpBatch) -> MlpBatch {
    let shape = batch.network.shape().clone();
    let mut parameters = widen(&in_pytorch_order(&shape, batch.network.params()));
    let mlp = &batch.mlp;
    let mut rows: Vec<Vec<f64>> = batch.x.chunks_exact(mlp.widths[0]).map(widen).collect();
    for layer in 0..mlp.layer_count() {
        let activation = mlp.activation_after(layer);
        let mut sums: Vec<Vec<f64>>;
        loop {
            sums = rows.iter().map(|below| mlp.sums(&parameters, layer, below)).collect();
            let is_near = |unit: &usize| sums.iter().any(|row| row[*unit].abs() < KINK_MARGIN);
            let near: Vec<usize> = (0..mlp.widths[layer + 1]).filter(is_near).collect();
            if activation != Activation::Relu || near.is_empty() {
                break;
            }
            for unit in near {
                parameters[mlp.bias_start(layer) + unit] += 2.0 * KINK_MARGIN;
            }
        }
        let activate_row =
            |row: Vec<f64>| row.iter().map(|sum| activate(activation, *sum)).collect();
        rows = sums.into_iter().map(activate_row).collect();
    }
    let parameters: Vec<f32> = parameters.iter().map(|parameter| *parameter as f32).collect();
    batch.network = network_from_pytorch_order(&shape, &parameters);
    batch
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn perceptrons_follow_the_slopes_of_their_loss(batch in mlp_batches()) {
        let batch = move_off_the_kinks(batch);
        let shape = batch.network.shape();
        let parameters = widen(&in_pytorch_order(shape, batch.network.params()));
        let x = widen(&batch.x);
        let loss = |parameters: &[f64], x: &[f64]| {
            weighted_sum(&batch.d_output, &reference_outputs(&batch, parameters, x))
        };
        let output = reference_outputs(&batch, &parameters, &x);
        let d_parameters = slopes(&parameters, |parameters| loss(parameters, &x));
        let d_input = slopes(&x, |x| loss(&parameters, x));
        for kernel in Kernel::available() {
            let got = batch.run(kernel, &mut Tape::default());
            let check = |what: &str, got: &[f32], expect: &[f64]| {
                assert_close(&format!("{kernel} {what}"), got, expect, TOLERANCE);
            };
            let gradient = in_pytorch_order(shape, &got.flat_gradient);
            check("output", &got.output, &output);
            check("parameter gradient", &gradient, &d_parameters);
            check("input gradient", &got.d_input, &d_input);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn heads_follow_the_slopes_of_their_loss(batch in head_batches()) {
        let HeadBatch { head, d_log_prob, d_entropy, .. } = &batch;
        let (outputs, extra) = (widen(&batch.outputs), widen(&batch.extra));
        let actions = widen(&batch.actions);
        let log_probs = |outputs: &[f64], extra: &[f64]| -> Vec<f64> {
            let actions = actions.chunks_exact(head.action_len());
            let rows = outputs.chunks_exact(head.outputs()).zip(actions);
            rows.map(|(row, action)| log_prob(head, row, extra, action)).collect()
        };
        let entropies = |outputs: &[f64], extra: &[f64]| -> Vec<f64> {
            let rows = outputs.chunks_exact(head.outputs());
            rows.map(|row| entropy(head, row, extra)).collect()
        };
        let loss = |outputs: &[f64], extra: &[f64]| {
            weighted_sum(d_log_prob, &log_probs(outputs, extra))
                + f64::from(*d_entropy) * entropies(outputs, extra).iter().sum::<f64>()
        };
        let d_outputs = slopes(&outputs, |outputs| loss(outputs, &extra));
        let d_extra = slopes(&extra, |extra| loss(&outputs, extra));
        for kernel in Kernel::available() {
            let got = batch.run(kernel, &mut HeadScratch::default());
            let check = |what: &str, got: &[f32], expect: &[f64]| {
                assert_close(&format!("{kernel} {what}"), got, expect, TOLERANCE);
            };
            check("log-probability", &got.log_prob, &log_probs(&outputs, &extra));
            check("entropy", &got.entropy, &entropies(&outputs, &extra));
            check("output gradient", &got.d_outputs, &d_outputs);
            check("head parameter gradient", &got.d_extra, &d_extra);
        }
    }
}
