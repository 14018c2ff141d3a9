//! The forward and the backward pass through all layers.

use homeostat_core::Stream;

use super::direction::{DirectionScratch, DirectionTape, Pass, Rows};
use super::parallel::Parallel;
use super::{RecurrentShape, SequenceBatch};
use crate::Kernel;
use crate::kernel::{AlignedBuffer, Start};

/// What a recurrent network reads.
#[derive(Debug, Clone, Copy)]
pub struct RecurrentInput<'a> {
    /// Inputs as `[step][sequence][input]`.
    pub x: &'a [f32],
    /// Lengths of the sequences.
    pub batch: &'a SequenceBatch,
    /// Hidden states before the first step, as
    /// `[layer][direction][sequence][hidden]`; zero, if absent.
    pub initial: Option<&'a [f32]>,
}

/// Which gradients a backward pass writes, each with respect to what it is named after
/// and laid out like it.
#[derive(Debug, Default)]
pub struct RecurrentGradients<'a> {
    /// Every parameter; zero in the gaps of alignment.
    pub params: Option<&'a mut [f32]>,
    /// The inputs; zero in padding.
    pub x: Option<&'a mut [f32]>,
    /// The hidden states before the first step.
    pub initial: Option<&'a mut [f32]>,
}

/// What a forward pass leaves for the backward pass, and the storage of both. Reused
/// from batch to batch; it allocates only when a batch is larger than any before.
#[derive(Debug, Clone, Default)]
pub struct RecurrentTape {
    layers: Vec<LayerTape>,
    scratch: Vec<DirectionScratch>,
    /// Packed inputs, if the batch has padding.
    input: AlignedBuffer,
    /// Outputs with padding, if the batch has any.
    output: AlignedBuffer,
    last: AlignedBuffer,
    state_len: usize,
    was_dropped: bool,
    d_above: AlignedBuffer,
    d_below: AlignedBuffer,
}

#[derive(Debug, Clone, Default)]
struct LayerTape {
    directions: Vec<DirectionTape>,
    /// Rows for the layer above: the directions side by side, after dropout. Not in
    /// use where the only direction's hidden states are just that.
    output: AlignedBuffer,
    /// Zero or one over the probability to keep, for each output.
    dropout: AlignedBuffer,
}

impl LayerTape {
    fn output(&self, is_own: bool) -> &[f32] {
        if is_own { &self.output } else { &self.directions[0].hidden }
    }
}

impl RecurrentTape {
    /// Hidden states after the last step of each sequence of the last forward pass, as
    /// `[layer][direction][sequence][hidden]`.
    pub fn last(&self) -> &[f32] {
        &self.last[..self.state_len]
    }

    fn prepare(&mut self, shape: &RecurrentShape) {
        let (layers, directions) = (shape.config().layers, shape.direction_count());
        self.layers.resize_with(layers.max(self.layers.len()), LayerTape::default);
        for layer in &mut self.layers {
            let count = directions.max(layer.directions.len());
            layer.directions.resize_with(count, DirectionTape::default);
        }
        let count = directions.max(self.scratch.len());
        self.scratch.resize_with(count, DirectionScratch::default);
    }
}

impl RecurrentShape {
    /// Runs a batch through the network and returns the outputs of the last layer as
    /// `[step][sequence][direction][hidden]`, zero in padding. They lie in `tape`, with
    /// all that [`RecurrentShape::backward`] needs. Training passes a stream for
    /// `dropout`; without one, no output is dropped.
    ///
    /// Large passes run on rayon's threads; the results are the same for any number.
    ///
    /// # Panics
    /// If `params`, `x` or `initial` are shorter than shape and batch demand.
    pub fn forward<'t>(
        &self,
        kernel: Kernel,
        params: &[f32],
        input: RecurrentInput<'_>,
        dropout: Option<&mut Stream>,
        tape: &'t mut RecurrentTape,
    ) -> &'t [f32] {
        let batch = input.batch;
        tape.prepare(self);
        let parallel = self.parallel(batch);
        let pass = Pass { kernel, params, batch, parallel };
        parallel.enter(|| self.forward_layers(pass, input, dropout, tape));
        let outputs = self.outputs();
        let layer = &tape.layers[self.config().layers - 1];
        let packed = layer.output(self.config().bidirectional);
        if batch.is_dense() {
            return &packed[..batch.rows() * outputs];
        }
        let output = tape.output.at_least(batch.padded_rows() * outputs);
        batch.unpack(outputs, &packed[..batch.rows() * outputs], output);
        output
    }

    fn forward_layers(
        &self,
        pass: Pass<'_>,
        input: RecurrentInput<'_>,
        mut dropout: Option<&mut Stream>,
        tape: &mut RecurrentTape,
    ) {
        let (batch, config, outputs) = (pass.batch, self.config(), self.outputs());
        let (hidden, count) = (config.hidden, self.direction_count());
        let state = batch.sequences() * hidden;
        let RecurrentTape { layers, scratch, input: packed_x, last, .. } = tape;
        let last = last.at_least(state * self.directions().len());
        tape.state_len = last.len();
        tape.was_dropped = dropout.is_some() && config.dropout > 0.0;
        let x = if batch.is_dense() {
            input.x
        } else {
            let packed = packed_x.at_least(batch.rows() * config.inputs);
            batch.pack(config.inputs, input.x, packed);
            packed
        };
        for (index, shapes) in self.layers().enumerate() {
            let (below, rest) = layers.split_at_mut(index);
            let is_own = config.bidirectional || tape.was_dropped;
            let x = below.last().map_or(x, |below| below.output(is_own));
            let layer = &mut rest[0];
            for (direction, tape) in layer.directions.iter_mut().take(count).enumerate() {
                let sorted = tape.initial.at_least(state);
                match input.initial {
                    Some(initial) => {
                        let start = (index * count + direction) * state;
                        batch.sort(hidden, &initial[start..][..state], sorted);
                    }
                    None => sorted.fill(0.0),
                }
            }
            let parts = shapes.iter().zip(&mut layer.directions).zip(scratch.iter_mut());
            pass.parallel.directions(parts, |direction, ((shape, tape), scratch)| {
                shape.forward(pass, direction == 1, x, tape, scratch);
            });
            let last = last[index * count * state..].chunks_exact_mut(state);
            for (direction, last) in layer.directions.iter().zip(last).take(count) {
                batch.unsort(hidden, &direction.last[..state], last);
            }
            let is_top = index + 1 == config.layers;
            let drop = dropout.as_deref_mut().filter(|_| tape.was_dropped && !is_top);
            let is_dropped = drop.is_some();
            if let Some(rng) = drop {
                let kept = 1.0 / (1.0 - config.dropout);
                for factor in layer.dropout.at_least(batch.rows() * outputs) {
                    let is_kept = rng.uniform() >= f64::from(config.dropout);
                    *factor = if is_kept { kept } else { 0.0 };
                }
            }
            if config.bidirectional || is_dropped {
                let LayerTape { directions, output, dropout } = layer;
                let output = output.at_least(batch.rows() * outputs);
                for (direction, tape) in directions.iter().take(count).enumerate() {
                    let rows = output.chunks_exact_mut(outputs);
                    for (row, hidden_row) in rows.zip(tape.hidden.chunks_exact(hidden)) {
                        row[direction * hidden..][..hidden].copy_from_slice(hidden_row);
                    }
                }
                if is_dropped {
                    multiply_into(output, dropout);
                }
            }
        }
    }

    /// The gradients of a loss, each written where it is asked for.
    ///
    /// `tape` holds the forward pass of the same `input`. `d_output` is the loss's
    /// gradient with respect to each output; its padding is not read. `d_last` is that
    /// with respect to [`RecurrentTape::last`], zero if absent.
    ///
    /// # Panics
    /// If an operand is shorter than shape and batch demand.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is an operand of the pass; a struct would only rename them"
    )]
    pub fn backward(
        &self,
        kernel: Kernel,
        params: &[f32],
        input: RecurrentInput<'_>,
        tape: &mut RecurrentTape,
        d_output: &[f32],
        d_last: Option<&[f32]>,
        grads: RecurrentGradients<'_>,
    ) {
        let parallel = self.parallel(input.batch);
        let pass = Pass { kernel, params, batch: input.batch, parallel };
        parallel.enter(|| self.backward_layers(pass, input.x, tape, d_output, d_last, grads));
    }

    fn backward_layers(
        &self,
        pass: Pass<'_>,
        x: &[f32],
        tape: &mut RecurrentTape,
        d_output: &[f32],
        d_last: Option<&[f32]>,
        mut grads: RecurrentGradients<'_>,
    ) {
        let (batch, config, outputs) = (pass.batch, self.config(), self.outputs());
        let (hidden, count, rows) = (config.hidden, self.direction_count(), batch.rows());
        let state = batch.sequences() * hidden;
        let RecurrentTape { layers, scratch, input: packed_x, .. } = tape;
        let x = if batch.is_dense() { x } else { &packed_x[..] };
        let (d_above, d_below) = (&mut tape.d_above, &mut tape.d_below);
        // The two change places with every layer: both have room for the widest.
        for buffer in [&mut *d_above, &mut *d_below] {
            buffer.at_least(rows * outputs.max(config.inputs));
        }
        batch.pack(outputs, d_output, &mut d_above[..rows * outputs]);
        for (index, shapes) in self.layers().enumerate().rev() {
            let (below, rest) = layers.split_at(index);
            let is_own = config.bidirectional || tape.was_dropped;
            let x = below.last().map_or(x, |below| below.output(is_own));
            for (direction, scratch) in scratch.iter_mut().take(count).enumerate() {
                let sorted = scratch.d_last.at_least(state);
                match d_last {
                    Some(d_last) => {
                        let start = (index * count + direction) * state;
                        batch.sort(hidden, &d_last[start..][..state], sorted);
                    }
                    None => sorted.fill(0.0),
                }
            }
            let layer_range = shapes[0].range.start..shapes[count - 1].range.end;
            let mut direction_grads = grads
                .params
                .as_deref_mut()
                .map(|grads| grads[layer_range].chunks_exact_mut(shapes[0].range.len()));
            let direction_grads =
                std::iter::repeat_with(|| direction_grads.as_mut().and_then(Iterator::next));
            let parts = shapes.iter().zip(&rest[0].directions).zip(scratch.iter_mut());
            let parts = parts.zip(direction_grads);
            let d_output = &d_above[..rows * outputs];
            pass.parallel.directions(parts, |direction, (((shape, tape), scratch), grads)| {
                let values = &d_output[direction * hidden..];
                let d_output = Rows { values, stride: outputs, width: hidden };
                shape.backward(pass, direction == 1, tape, d_output, scratch);
                if let Some(grads) = grads {
                    shape.parameter_gradient(pass, x, tape, scratch, grads);
                }
            });
            if let Some(d_initial) = grads.initial.as_deref_mut() {
                let d_initial = d_initial[index * count * state..].chunks_exact_mut(state);
                for (scratch, d_initial) in scratch.iter().zip(d_initial).take(count) {
                    batch.unsort(hidden, &scratch.d_initial[..state], d_initial);
                }
            }
            if index == 0 && grads.x.is_none() {
                break;
            }
            let d_input = &mut d_below[..rows * shapes[0].inputs];
            for (direction, (shape, scratch)) in shapes.iter().zip(scratch.iter_mut()).enumerate() {
                let start = if direction == 0 { Start::Zero } else { Start::Result };
                shape.input_gradient(pass, scratch, d_input, start);
            }
            if let Some(below) = below.last().filter(|_| tape.was_dropped) {
                multiply_into(d_input, &below.dropout);
            }
            std::mem::swap(d_above, d_below);
        }
        if let Some(d_input) = grads.x {
            let d_input = &mut d_input[..batch.padded_rows() * config.inputs];
            batch.unpack(config.inputs, &d_above[..rows * config.inputs], d_input);
        }
    }

    fn parallel(&self, batch: &SequenceBatch) -> Parallel {
        Parallel::for_work(batch.rows().saturating_mul(self.parameter_count()))
    }
}

fn multiply_into(values: &mut [f32], factors: &[f32]) {
    values.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
}
