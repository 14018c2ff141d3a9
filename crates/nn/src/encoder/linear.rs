//! Dense layers and layer normalisation of an encoder.

use super::Weights;
use crate::Result;
use crate::kernel::{AlignedBuffer, Kernel, PackedProduct, Start, packed_len};

/// A dense layer, its weights packed once.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    inputs: usize,
    outputs: usize,
    packed: AlignedBuffer,
    bias: Vec<f32>,
}

impl Linear {
    pub(super) fn of(
        weights: &Weights<'_>,
        kernel: Kernel,
        name: &str,
        inputs: usize,
        outputs: usize,
    ) -> Result<Self> {
        // Files have a row per output.
        let by_output = weights.floats(&format!("{name}.weight"), Some(&[outputs, inputs]))?;
        let bias = weights.floats(&format!("{name}.bias"), Some(&[outputs]))?;
        let mut by_input = vec![0.0; by_output.len()];
        for (output, row) in by_output.chunks_exact(inputs).enumerate() {
            for (input, weight) in row.iter().enumerate() {
                by_input[input * outputs + output] = *weight;
            }
        }
        let mut packed = AlignedBuffer::zeros(packed_len(inputs, outputs));
        kernel.pack(&by_input, outputs, inputs, outputs, &mut packed);
        Ok(Self { inputs, outputs, packed, bias })
    }

    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// A row of outputs for each row of inputs.
    pub(super) fn apply(&self, kernel: Kernel, x: &[f32]) -> Vec<f32> {
        let rows = x.len() / self.inputs;
        let mut y = vec![0.0; rows * self.outputs];
        let product = PackedProduct {
            x,
            stride: self.inputs,
            rows,
            depth: self.inputs,
            packed: &self.packed,
            columns: self.outputs,
            start: Start::Bias(&self.bias),
        };
        kernel.multiply_packed(product, &mut y, self.outputs);
        y
    }
}

/// Layer normalisation.
#[derive(Debug, Clone)]
pub(super) struct Normalization {
    scale: Vec<f32>,
    shift: Vec<f32>,
    epsilon: f32,
}

impl Normalization {
    pub(super) fn of(
        weights: &Weights<'_>,
        name: &str,
        width: usize,
        epsilon: f32,
    ) -> Result<Self> {
        let scale = weights.floats(&format!("{name}.weight"), Some(&[width]))?;
        let shift = weights.floats(&format!("{name}.bias"), Some(&[width]))?;
        Ok(Self { scale, shift, epsilon })
    }

    /// Every row gets mean zero and variance one, then its learnt scale and shift.
    pub(super) fn apply(&self, rows: &mut [f32]) {
        let width = self.scale.len();
        for row in rows.chunks_exact_mut(width) {
            let mean = row.iter().sum::<f32>() / width as f32;
            let square = |value: &f32| (value - mean) * (value - mean);
            let variance = row.iter().map(square).sum::<f32>() / width as f32;
            let factor = 1.0 / (variance + self.epsilon).sqrt();
            for ((value, scale), shift) in row.iter_mut().zip(&self.scale).zip(&self.shift) {
                *value = (*value - mean) * factor * scale + shift;
            }
        }
    }
}
