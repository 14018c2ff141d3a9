//! A recurrent shape with weights in it.

use std::sync::Arc;

use homeostat_core::{Persist, Snapshot, Stream};

use super::shape::DirectionShape;
use super::{RecurrentInput, RecurrentShape, RecurrentTape};
use crate::{AlignedBuffer, Kernel};

/// A recurrent network's parameters in one flat run.
///
/// Outside, as in files, they are PyTorch's tensors under its names: `weight_ih_l0`,
/// `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, with `_reverse` for the second
/// direction; rows of a GRU's are in the order reset, update, candidate.
#[derive(Debug, Clone)]
pub struct RecurrentNetwork {
    shape: Arc<RecurrentShape>,
    params: AlignedBuffer,
}

/// Where one of PyTorch's tensors lies: a row for each gate of each hidden unit.
struct Tensor<'a> {
    name: String,
    start: usize,
    /// Numbers of a row; a bias has one.
    columns: usize,
    is_bias: bool,
    hidden: usize,
    /// PyTorch's gate of each block of the stored columns.
    gates: &'a [usize],
}

impl Tensor<'_> {
    fn len(&self) -> usize {
        self.columns * self.gates.len() * self.hidden
    }

    fn dimensions(&self) -> Vec<usize> {
        let rows = self.gates.len() * self.hidden;
        if self.is_bias { vec![rows] } else { vec![rows, self.columns] }
    }

    /// Pairs of PyTorch's place and ours.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let stored_width = self.gates.len() * self.hidden;
        self.gates.iter().enumerate().flat_map(move |(block, gate)| {
            (0..self.hidden).flat_map(move |unit| {
                let (row, stored) = (gate * self.hidden + unit, block * self.hidden + unit);
                (0..self.columns).map(move |column| {
                    (row * self.columns + column, self.start + column * stored_width + stored)
                })
            })
        })
    }
}

impl DirectionShape {
    fn tensors(&self, suffix: &str) -> [Tensor<'static>; 4] {
        let tensor = |name: &str, start: usize, columns: Option<usize>, gates| Tensor {
            name: format!("{name}_{suffix}"),
            start,
            columns: columns.unwrap_or(1),
            is_bias: columns.is_none(),
            hidden: self.hidden,
            gates,
        };
        let (input, hidden) = (self.cell.input_gates(), self.cell.hidden_gates());
        [
            tensor("weight_ih", self.weight_ih.start, Some(self.inputs), input),
            tensor("weight_hh", self.weight_hh.start, Some(self.hidden), hidden),
            tensor("bias_ih", self.bias_ih.start, None, input),
            tensor("bias_hh", self.bias_hh.start, None, hidden),
        ]
    }
}

impl RecurrentShape {
    fn tensors(&self) -> impl Iterator<Item = Tensor<'static>> {
        self.layers().enumerate().flat_map(|(layer, directions)| {
            directions.iter().zip(["", "_reverse"]).flat_map(move |(direction, suffix)| {
                direction.tensors(&format!("l{layer}{suffix}"))
            })
        })
    }
}

impl RecurrentNetwork {
    /// Fresh weights and biases, uniform in plus or minus one over the root of the
    /// hidden units, as PyTorch draws them.
    pub fn new(shape: Arc<RecurrentShape>, rng: &mut Stream) -> Self {
        let bound = 1.0 / (shape.config().hidden as f64).sqrt();
        let mut params = AlignedBuffer::zeros(shape.parameter_count());
        for tensor in shape.tensors() {
            for (_, place) in tensor.places() {
                params[place] = rng.range(-bound, bound) as f32;
            }
        }
        Self { shape, params }
    }

    /// The shape.
    pub fn shape(&self) -> &RecurrentShape {
        &self.shape
    }

    /// All parameters.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// All parameters, to be changed by an optimiser.
    pub fn params_mut(&mut self) -> &mut [f32] {
        &mut self.params
    }

    /// Outputs of a batch; see [`RecurrentShape::forward`].
    pub fn forward<'t>(
        &self,
        kernel: Kernel,
        input: RecurrentInput<'_>,
        dropout: Option<&mut Stream>,
        tape: &'t mut RecurrentTape,
    ) -> &'t [f32] {
        self.shape.forward(kernel, &self.params, input, dropout, tape)
    }

    /// PyTorch's tensors in its order: name, dimensions and numbers.
    pub fn tensors(&self) -> impl Iterator<Item = (String, Vec<usize>, Vec<f32>)> {
        self.shape.tensors().map(|tensor| {
            let mut values = vec![0.0; tensor.len()];
            for (theirs, ours) in tensor.places() {
                values[theirs] = self.params[ours];
            }
            (tensor.name.clone(), tensor.dimensions(), values)
        })
    }

    /// Bytes held by the parameters.
    pub fn bytes(&self) -> usize {
        self.params.bytes()
    }
}

impl Persist for RecurrentNetwork {
    fn save(&self, name: &str, out: &mut Snapshot) {
        for (tensor, _, values) in self.tensors() {
            out.put_f32(&format!("{name}/{tensor}"), values);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        for tensor in self.shape.tensors() {
            let values = from.f32s(&format!("{name}/{}", tensor.name), tensor.len())?;
            for (theirs, ours) in tensor.places() {
                self.params[ours] = values[theirs];
            }
        }
        Ok(())
    }
}
