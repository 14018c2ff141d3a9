//! Multi-layer perceptrons: shape, forward pass and backward pass.
//!
//! A shape owns no weights: it defines where each layer lies in a flat slice of parameters. So
//! actors, critics and their target copies are plain slices, and the optimiser is a loop over a
//! slice.

use std::fmt;
use std::ops::Range;

use crate::kernel::{AlignedBuffer, GradientOperands, Kernel, ProductOperands};
use crate::{Activation, Error, Result};

/// A layer with fewer outputs stores its weights output-major: its forward pass is then a few dot
/// products instead of mostly empty vectors, and its backward pass needs no transposition.
const NARROW: usize = 16;

/// A gigabyte of weights; without a limit, a mistyped width would exhaust the memory.
pub(crate) const MAX_PARAMETERS: usize = 1 << 28;

/// Each layer starts on a cache line.
pub(crate) const ALIGNMENT: usize = 16;

/// The layers of a multi-layer perceptron, and where their parameters lie.
///
/// Fitting `y = 2 x` by gradient descent with Adam:
///
/// ```
/// use std::sync::Arc;
///
/// use homeostat_core::Stream;
/// use homeostat_nn::{Activation, Adam, AdamConfig, Init, InputRows, Kernel, MlpShape, Network, Tape};
///
/// # fn main() -> homeostat_nn::Result<()> {
/// let shape = Arc::new(MlpShape::new(&[1, 16, 1], Activation::Tanh, Activation::Identity)?);
/// let mut rng = Stream::from_seed(1);
/// let mut network = Network::new(Arc::clone(&shape), 0, Init::UniformFanIn, &mut rng);
/// let mut adam = Adam::new(AdamConfig::default(), shape.parameter_count());
/// let (kernel, mut tape) = (Kernel::best(), Tape::default());
/// let x = [-1.0, -0.5, 0.0, 0.5, 1.0];
/// let mut grads = vec![0.0; shape.parameter_count()];
/// let mut loss = f32::MAX;
/// for _ in 0..500 {
///     let y = shape.forward(kernel, network.params(), &x, x.len(), &mut tape);
///     let errors: Vec<f32> = y.iter().zip(&x).map(|(y, x)| y - 2.0 * x).collect();
///     loss = errors.iter().map(|error| error * error).sum();
///     let params = network.params();
///     let input = InputRows { x: &x, rows: x.len() };
///     shape.backward(kernel, params, input, &mut tape, &errors, Some(&mut grads), None);
///     assert!(adam.step(kernel, 1e-2, 1.0, &grads, network.params_mut()));
/// }
/// assert!(loss < 0.01, "squared error {loss}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MlpShape {
    layers: Vec<Layer>,
}

/// The inputs of a pass.
#[derive(Debug, Clone, Copy)]
pub struct InputRows<'a> {
    /// One row after the other.
    pub x: &'a [f32],
    /// How many there are.
    pub rows: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layer {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) activation: Activation,
    pub(crate) weights: Range<usize>,
    pub(crate) bias: Range<usize>,
    /// Where the next layer starts; between `bias.end` and here lies alignment.
    end: usize,
}

impl MlpShape {
    /// A perceptron with these widths, from inputs to outputs, `activation` after
    /// each hidden layer and `output_activation` after the last.
    pub fn new(
        widths: &[usize],
        activation: Activation,
        output_activation: Activation,
    ) -> Result<Self> {
        if widths.len() < 2 || widths.contains(&0) {
            return Err(Error::EmptyLayer { shape: format!("{widths:?}") });
        }
        let mut layers: Vec<Layer> = Vec::new();
        for (index, pair) in widths.windows(2).enumerate() {
            let (inputs, outputs) = (pair[0], pair[1]);
            let is_last = index + 2 == widths.len();
            let start = layers.last().map_or(0, |layer| layer.end);
            let parameters =
                inputs.checked_mul(outputs).and_then(|count| count.checked_add(outputs));
            if parameters.is_none_or(|count| start + count > MAX_PARAMETERS) {
                let shape = format!("{widths:?}");
                return Err(Error::TooLarge { shape, most: MAX_PARAMETERS });
            }
            let weights = start..start + inputs * outputs;
            let bias_start = weights.end.next_multiple_of(ALIGNMENT);
            let bias = bias_start..bias_start + outputs;
            layers.push(Layer {
                inputs,
                outputs,
                activation: if is_last { output_activation } else { activation },
                end: bias.end.next_multiple_of(ALIGNMENT),
                weights,
                bias,
            });
        }
        Ok(Self { layers })
    }

    /// Numbers of one input row.
    pub fn inputs(&self) -> usize {
        self.layers[0].inputs
    }

    /// Numbers of one output row.
    pub fn outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].outputs
    }

    /// All widths, from inputs to outputs.
    pub fn widths(&self) -> Vec<usize> {
        let outputs = self.layers.iter().map(|layer| layer.outputs);
        std::iter::once(self.inputs()).chain(outputs).collect()
    }

    /// The activation of the hidden layers; without any, that of the last layer.
    pub fn activation(&self) -> Activation {
        self.layers[0].activation
    }

    /// Length of the slice of parameters, padding included.
    pub fn parameter_count(&self) -> usize {
        self.layers[self.layers.len() - 1].end
    }

    pub(crate) fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The output for `rows` rows of `x`. `tape` stores it together with the intermediate results
    /// that [`MlpShape::backward`] needs.
    pub fn forward<'t>(
        &self,
        kernel: Kernel,
        params: &[f32],
        x: &[f32],
        rows: usize,
        tape: &'t mut Tape,
    ) -> &'t [f32] {
        tape.outputs.resize_with(self.layers.len().max(tape.outputs.len()), AlignedBuffer::default);
        for (index, layer) in self.layers.iter().enumerate() {
            let (before, rest) = tape.outputs.split_at_mut(index);
            let input = before.last().map_or(x, |h| h);
            layer.forward(kernel, params, input, rows, rest[0].at_least(rows * layer.outputs));
        }
        tape.output(self, rows)
    }

    /// The gradient of a loss with respect to every parameter (zero in the padding) and with
    /// respect to the input; each is computed if a slice is given for it.
    ///
    /// `tape` holds the forward pass of the same `x`; `d_output` is the gradient of the loss with
    /// respect to each output.
    #[expect(
        clippy::too_many_arguments,
        reason = "each is an operand of the pass; a struct would only rename them"
    )]
    pub fn backward(
        &self,
        kernel: Kernel,
        params: &[f32],
        input: InputRows<'_>,
        tape: &mut Tape,
        d_output: &[f32],
        mut grads: Option<&mut [f32]>,
        d_input: Option<&mut [f32]>,
    ) {
        let InputRows { x, rows } = input;
        let Tape { outputs, delta, next_delta, transposed } = tape;
        let last = &self.layers[self.layers.len() - 1];
        let count = rows * last.outputs;
        delta.at_least(count).copy_from_slice(&d_output[..count]);
        kernel.derive(last.activation, &outputs[self.layers.len() - 1], &mut delta[..count]);
        for (index, layer) in self.layers.iter().enumerate().skip(1).rev() {
            let input = &outputs[index - 1];
            if let Some(grads) = grads.as_deref_mut() {
                layer.parameter_gradient(kernel, input, delta, rows, grads);
            }
            let activation = self.layers[index - 1].activation;
            let below = Below { activation, output: input, rows };
            let next = next_delta.at_least(rows * layer.inputs);
            layer.input_gradient(kernel, params, delta, below, next, transposed);
            std::mem::swap(delta, next_delta);
        }
        let first = &self.layers[0];
        if let Some(grads) = grads {
            first.parameter_gradient(kernel, x, delta, rows, grads);
        }
        if let Some(d_input) = d_input {
            let below = Below { activation: Activation::Identity, output: x, rows };
            first.input_gradient(kernel, params, delta, below, d_input, transposed);
        }
        // After an odd number of swaps each buffer would keep the other's size, and the
        // next batch, though no larger, would have to grow one of them.
        if self.layers.len().is_multiple_of(2) {
            std::mem::swap(delta, next_delta);
        }
    }
}

/// The layer below another one: its activation, and what it put out.
struct Below<'a> {
    activation: Activation,
    output: &'a [f32],
    rows: usize,
}

impl Layer {
    pub(crate) fn is_narrow(&self) -> bool {
        self.outputs < NARROW
    }

    fn forward(&self, kernel: Kernel, params: &[f32], x: &[f32], rows: usize, y: &mut [f32]) {
        let Self { inputs, outputs, activation, .. } = *self;
        let w = &params[self.weights.clone()];
        let bias = &params[self.bias.clone()];
        let product = ProductOperands { x, w, rows, inputs, outputs };
        if self.is_narrow() {
            kernel.dots_activate(product, bias, activation, y);
        } else {
            kernel.multiply_activate(product, bias, activation, y);
        }
    }

    /// The loss's gradient with respect to weights and bias, from `delta`, its
    /// gradient with respect to the layer's sums.
    fn parameter_gradient(
        &self,
        kernel: Kernel,
        x: &[f32],
        delta: &[f32],
        rows: usize,
        grads: &mut [f32],
    ) {
        let Self { inputs, outputs, .. } = *self;
        let operands = if self.is_narrow() {
            GradientOperands { a: delta, b: x, rows, width_a: outputs, width_b: inputs }
        } else {
            GradientOperands { a: x, b: delta, rows, width_a: inputs, width_b: outputs }
        };
        kernel.outer_product(operands, &mut grads[self.weights.clone()]);
        kernel.column_sums(delta, rows, &mut grads[self.bias.clone()]);
        grads[self.weights.end..self.bias.start].fill(0.0);
        grads[self.bias.end..self.end].fill(0.0);
    }

    /// The loss's gradient with respect to the sums of the layer below.
    fn input_gradient(
        &self,
        kernel: Kernel,
        params: &[f32],
        delta: &[f32],
        below: Below<'_>,
        d_input: &mut [f32],
        transposed: &mut AlignedBuffer,
    ) {
        let Self { inputs, outputs, .. } = *self;
        let Below { activation, output, rows } = below;
        let w = &params[self.weights.clone()];
        let w = if self.is_narrow() {
            w
        } else {
            let t = transposed.at_least(inputs * outputs);
            kernel.transpose(w, inputs, outputs, t);
            t
        };
        let product = ProductOperands { x: delta, w, rows, inputs: outputs, outputs: inputs };
        kernel.multiply_derive(product, activation, output, d_input);
    }
}

impl fmt::Display for MlpShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.inputs())?;
        self.layers.iter().try_for_each(|layer| write!(f, "-{}", layer.outputs))
    }
}

/// Intermediate results of a forward pass, for the backward pass. Reuse it from batch to batch: it
/// allocates only for a batch that is larger than any before.
#[derive(Debug, Clone, Default)]
pub struct Tape {
    outputs: Vec<AlignedBuffer>,
    delta: AlignedBuffer,
    next_delta: AlignedBuffer,
    transposed: AlignedBuffer,
}

impl Tape {
    /// The output rows of the last forward pass of `shape`.
    pub fn output(&self, shape: &MlpShape, rows: usize) -> &[f32] {
        &self.outputs[shape.layers.len() - 1][..rows * shape.outputs()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_shapes_are_refused() {
        let shape =
            |widths: &[usize]| MlpShape::new(widths, Activation::Tanh, Activation::Identity);
        for widths in [&[][..], &[4], &[4, 0, 2], &[0, 2]] {
            assert!(matches!(shape(widths), Err(Error::EmptyLayer { .. })), "{widths:?}");
        }
        for widths in
            [&[1 << 20, 1 << 20][..], &[1 << 32, 1 << 32], &[usize::MAX, 2], &[2, usize::MAX]]
        {
            assert!(matches!(shape(widths), Err(Error::TooLarge { .. })), "{widths:?}");
        }
        assert!(shape(&[16, 64, 64, 7]).is_ok());
    }

    /// A number of rows whose product with a width wraps around to nothing must not
    /// pass as a batch of nothing.
    #[test]
    fn rows_beyond_all_memory_are_refused() {
        let shape = MlpShape::new(&[16, 16], Activation::Tanh, Activation::Tanh).unwrap();
        let params = vec![0.0; shape.parameter_count()];
        let forward =
            || shape.forward(Kernel::best(), &params, &[], 1 << 60, &mut Tape::default()).len();
        assert!(std::panic::catch_unwind(forward).is_err());
    }
}
