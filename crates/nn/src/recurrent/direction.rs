//! One direction of one layer, over all steps.

use std::ops::Range;

use super::SequenceBatch;
use super::parallel::Parallel;
use super::shape::{Cell, DirectionShape};
use crate::Activation;
use crate::kernel::{AlignedBuffer, Kernel, PackedProduct, Start, packed_len};

/// Rows of a product over the rows of all steps that are worth a thread of their own:
/// fewer, and reading the weights would take longer than multiplying.
const MIN_ROWS: usize = 128;

/// Rows of one step that are worth it.
const MIN_STEP_ROWS: usize = 16;

/// Rows that a weight gradient sums up at a time, so that they stay in the caches.
const GRADIENT_ROWS: usize = 256;

/// What all directions of a pass share.
#[derive(Clone, Copy)]
pub(super) struct Pass<'a> {
    pub(super) kernel: Kernel,
    pub(super) params: &'a [f32],
    pub(super) batch: &'a SequenceBatch,
    pub(super) parallel: Parallel,
}

/// Rows of `width` numbers, the first of each `stride` after the other.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) values: &'a [f32],
    pub(super) stride: usize,
    pub(super) width: usize,
}

/// What a forward pass leaves for the backward pass; rows are packed.
#[derive(Debug, Clone, Default)]
pub(super) struct DirectionTape {
    /// The activations in place of their sums.
    gates: AlignedBuffer,
    /// The hidden state before each row.
    previous: AlignedBuffer,
    /// The hidden state after each row: the output.
    pub(super) hidden: AlignedBuffer,
    /// The hidden state before the first row of each sequence, longest first.
    pub(super) initial: AlignedBuffer,
    /// The hidden state after the last row of each sequence, longest first.
    pub(super) last: AlignedBuffer,
}

/// Storage that one layer leaves to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct DirectionScratch {
    /// Both biases, added where both products fill a sum.
    bias: AlignedBuffer,
    packed_input: AlignedBuffer,
    packed_hidden: AlignedBuffer,
    transposed: AlignedBuffer,
    packed_rows: AlignedBuffer,
    d_sums: AlignedBuffer,
    d_bias: AlignedBuffer,
    d_h: AlignedBuffer,
    /// Gradients with respect to last and initial hidden states, longest sequence first.
    pub(super) d_last: AlignedBuffer,
    pub(super) d_initial: AlignedBuffer,
}

/// The numbers of `rows` rows of `width`.
fn span(rows: &Range<usize>, width: usize) -> Range<usize> {
    rows.start * width..rows.end * width
}

/// Packed rows of a step, and how many sequences have the steps around it in the
/// direction of time that the layer reads.
struct Step {
    rows: Range<usize>,
    before: Range<usize>,
    after: usize,
}

/// The steps in the order in which a direction reads them.
fn steps(batch: &SequenceBatch, is_reversed: bool) -> impl DoubleEndedIterator<Item = Step> {
    let count = batch.steps();
    let rows = move |index: usize| batch.step(if is_reversed { count - 1 - index } else { index });
    (0..count).map(move |index| Step {
        rows: rows(index),
        before: if index == 0 { 0..0 } else { rows(index - 1) },
        after: if index + 1 == count { 0 } else { rows(index + 1).len() },
    })
}

impl DirectionShape {
    /// Fills `tape` from the rows of the layer below; `tape.initial` is set.
    pub(super) fn forward(
        &self,
        pass: Pass<'_>,
        is_reversed: bool,
        x: &[f32],
        tape: &mut DirectionTape,
        scratch: &mut DirectionScratch,
    ) {
        let Pass { kernel, params, batch, parallel } = pass;
        let Self { inputs, hidden, .. } = *self;
        let (rows, sums, width, start) =
            (batch.rows(), self.sums(), self.width(), self.hidden_start());
        let bias = scratch.bias.at_least(sums);
        self.join_biases(params, bias);
        let packed_input = scratch.packed_input.at_least(packed_len(inputs, width));
        kernel.pack(&params[self.weight_ih.clone()], width, inputs, width, packed_input);
        let packed_hidden = scratch.packed_hidden.at_least(packed_len(hidden, width));
        kernel.pack(&params[self.weight_hh.clone()], width, hidden, width, packed_hidden);

        let DirectionTape { gates, previous, hidden: states, initial, last } = tape;
        let gates = gates.at_least(rows * sums);
        let previous = previous.at_least(rows * hidden);
        let states = states.at_least(rows * hidden);
        let last = last.at_least(batch.sequences() * hidden);
        let input_product = PackedProduct {
            x,
            stride: inputs,
            rows,
            depth: inputs,
            packed: packed_input,
            columns: width,
            start: Start::Bias(bias),
        };
        parallel.multiply(kernel, input_product, gates, sums, MIN_ROWS);
        for Step { rows, before, after } in steps(batch, is_reversed) {
            let previous = &mut previous[span(&rows, hidden)];
            let carried = before.len().min(rows.len()) * hidden;
            previous[..carried].copy_from_slice(&states[span(&before, hidden)][..carried]);
            previous[carried..].copy_from_slice(&initial[carried..rows.len() * hidden]);
            let gates = &mut gates[span(&rows, sums)];
            let states = &mut states[span(&rows, hidden)];
            for gates in gates.chunks_exact_mut(sums) {
                gates[width..].copy_from_slice(&bias[width..]);
            }
            let hidden_product = PackedProduct {
                x: previous,
                stride: hidden,
                rows: rows.len(),
                depth: hidden,
                packed: packed_hidden,
                columns: width,
                start: Start::Result,
            };
            let result = &mut gates[start..];
            parallel.multiply(kernel, hidden_product, result, sums, MIN_STEP_ROWS);
            match self.cell {
                Cell::Gru => kernel.gru(hidden, gates, previous, states),
                Cell::Elman => {
                    kernel.tanh_in_place(gates);
                    states.copy_from_slice(gates);
                }
            }
            let ended = after.min(rows.len()) * hidden..rows.len() * hidden;
            last[ended.clone()].copy_from_slice(&states[ended]);
        }
    }

    /// The loss's gradients with respect to the sums, kept in `scratch`, and with
    /// respect to the initial hidden states, from that with respect to the hidden states.
    pub(super) fn backward(
        &self,
        pass: Pass<'_>,
        is_reversed: bool,
        tape: &DirectionTape,
        d_output: Rows<'_>,
        scratch: &mut DirectionScratch,
    ) {
        let Pass { kernel, params, batch, parallel } = pass;
        let hidden = self.hidden;
        let (sums, width, start) = (self.sums(), self.width(), self.hidden_start());
        let weights = &params[self.weight_hh.clone()];
        let transposed = scratch.transposed.at_least(hidden * width);
        kernel.transpose(weights, hidden, width, transposed);
        let packed = scratch.packed_hidden.at_least(packed_len(width, hidden));
        kernel.pack(transposed, hidden, width, hidden, packed);

        let d_sums = scratch.d_sums.at_least(batch.rows() * sums);
        let d_h = scratch.d_h.at_least(batch.sequences() * hidden);
        let d_initial = scratch.d_initial.at_least(batch.sequences() * hidden);
        let d_bias = scratch.d_bias.at_least(sums);
        d_bias.fill(0.0);
        for Step { rows, before, after } in steps(batch, is_reversed).rev() {
            let ended = after.min(rows.len()) * hidden..rows.len() * hidden;
            d_h[ended.clone()].copy_from_slice(&scratch.d_last[ended]);
            let d_h = &mut d_h[..rows.len() * hidden];
            let d_output = d_output.values[rows.start * d_output.stride..].chunks(d_output.stride);
            for (d_h, d_output) in d_h.chunks_exact_mut(hidden).zip(d_output) {
                d_h.iter_mut().zip(d_output).for_each(|(d_h, d_output)| *d_h += d_output);
            }
            let gates = &tape.gates[span(&rows, sums)];
            let d_sums = &mut d_sums[span(&rows, sums)];
            let start_from = match self.cell {
                Cell::Gru => {
                    let previous = &tape.previous[span(&rows, hidden)];
                    kernel.gru_backward(hidden, gates, previous, d_h, d_sums);
                    Start::Result
                }
                Cell::Elman => {
                    d_sums.copy_from_slice(d_h);
                    kernel.derive(Activation::Tanh, gates, d_sums);
                    Start::Zero
                }
            };
            kernel.add_rows(d_sums, d_bias);
            let product = PackedProduct {
                x: &d_sums[start..],
                stride: sums,
                rows: rows.len(),
                depth: width,
                packed,
                columns: hidden,
                start: start_from,
            };
            parallel.multiply(kernel, product, d_h, hidden, MIN_STEP_ROWS);
            let begun = before.len().min(rows.len()) * hidden..rows.len() * hidden;
            d_initial[begun.clone()].copy_from_slice(&d_h[begun]);
        }
    }

    /// The loss's gradient with respect to the parameters, from what
    /// [`DirectionShape::backward`] left; `x` are the rows of the layer below.
    pub(super) fn parameter_gradient(
        &self,
        pass: Pass<'_>,
        x: &[f32],
        tape: &DirectionTape,
        scratch: &mut DirectionScratch,
        grads: &mut [f32],
    ) {
        let (sums, width, start) = (self.sums(), self.width(), self.hidden_start());
        let within =
            |range: &Range<usize>| range.start - self.range.start..range.end - self.range.start;
        let [ih, hh] = [&self.weight_ih, &self.weight_hh].map(within);
        let [bias_ih, bias_hh] = [&self.bias_ih, &self.bias_hh].map(within);
        for gap in [ih.end..hh.start, hh.end..bias_ih.start, bias_ih.end..bias_hh.start] {
            grads[gap].fill(0.0);
        }
        grads[bias_hh.end..].fill(0.0);
        grads[bias_ih].copy_from_slice(&scratch.d_bias[..width]);
        grads[bias_hh].copy_from_slice(&scratch.d_bias[start..sums]);
        let DirectionScratch { d_sums, transposed, packed_rows, .. } = scratch;
        let d_rows = |first: usize| Rows { values: &d_sums[first..], stride: sums, width };
        let below = |values, width| Rows { values, stride: width, width };
        for (below, d_rows, range) in [
            (below(x, self.inputs), d_rows(0), ih),
            (below(&tape.previous, self.hidden), d_rows(start), hh),
        ] {
            weight_gradient(pass, below, d_rows, transposed, packed_rows, &mut grads[range]);
        }
    }

    /// Adds the loss's gradient with respect to the rows of the layer below, or writes
    /// it, from what [`DirectionShape::backward`] left.
    pub(super) fn input_gradient(
        &self,
        pass: Pass<'_>,
        scratch: &mut DirectionScratch,
        d_input: &mut [f32],
        start: Start<'_>,
    ) {
        let Pass { kernel, params, batch, parallel } = pass;
        let (inputs, width) = (self.inputs, self.width());
        let transposed = scratch.transposed.at_least(inputs * width);
        kernel.transpose(&params[self.weight_ih.clone()], inputs, width, transposed);
        let packed = scratch.packed_input.at_least(packed_len(width, inputs));
        kernel.pack(transposed, inputs, width, inputs, packed);
        let product = PackedProduct {
            x: &scratch.d_sums,
            stride: self.sums(),
            rows: batch.rows(),
            depth: width,
            packed,
            columns: inputs,
            start,
        };
        parallel.multiply(kernel, product, d_input, inputs, MIN_ROWS);
    }

    /// The input's bias on the sums that its product fills plus the hidden one's on
    /// those that the other fills.
    fn join_biases(&self, params: &[f32], bias: &mut [f32]) {
        let (of_input, of_hidden) = (&params[self.bias_ih.clone()], &params[self.bias_hh.clone()]);
        bias.fill(0.0);
        bias[..of_input.len()].copy_from_slice(of_input);
        for (bias, of_hidden) in bias[self.hidden_start()..].iter_mut().zip(of_hidden) {
            *bias += of_hidden;
        }
    }
}

/// `g[i][j] = sum over rows of a[row][i] d[row][j]`, a few hundred rows at a time.
/// Rows of `a` are contiguous.
fn weight_gradient(
    pass: Pass<'_>,
    a: Rows<'_>,
    d: Rows<'_>,
    transposed: &mut AlignedBuffer,
    packed: &mut AlignedBuffer,
    g: &mut [f32],
) {
    let Pass { kernel, batch, parallel, .. } = pass;
    for from in (0..batch.rows()).step_by(GRADIENT_ROWS) {
        let depth = GRADIENT_ROWS.min(batch.rows() - from);
        let transposed = transposed.at_least(a.width * depth);
        kernel.transpose(&a.values[from * a.stride..], depth, a.width, transposed);
        let packed = packed.at_least(packed_len(depth, d.width));
        kernel.pack(&d.values[from * d.stride..], d.stride, depth, d.width, packed);
        let product = PackedProduct {
            x: transposed,
            stride: depth,
            rows: a.width,
            depth,
            packed,
            columns: d.width,
            start: if from == 0 { Start::Zero } else { Start::Result },
        };
        parallel.multiply(kernel, product, g, d.width, MIN_ROWS);
    }
}
