//! A shape with weights.

use std::sync::Arc;

use homeostat_core::{Persist, Snapshot, Stream};

use crate::{AlignedBuffer, Init, Kernel, MlpShape, Tape};

/// The parameters of a perceptron and of its head (the logarithms of a Gaussian policy's
/// standard deviations), in one slice.
#[derive(Debug, Clone)]
pub struct Network {
    shape: Arc<MlpShape>,
    extra: usize,
    params: AlignedBuffer,
}

impl Network {
    /// New weights, and `extra` head parameters of zero. Networks of many agents share one shape.
    pub fn new(shape: Arc<MlpShape>, extra: usize, init: Init, rng: &mut Stream) -> Self {
        let params = AlignedBuffer::zeros(shape.parameter_count() + extra);
        let mut this = Self { shape, extra, params };
        let shape = Arc::clone(&this.shape);
        for (index, layer) in shape.layers().iter().enumerate() {
            let is_last = index + 1 == shape.layers().len();
            let (weights, bias) = init.draw(rng, layer.inputs, layer.outputs, is_last);
            this.set_layer(index, &weights, &bias);
        }
        this
    }

    /// The shape.
    pub fn shape(&self) -> &MlpShape {
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

    /// The head's own parameters.
    pub fn extra(&self) -> &[f32] {
        &self.params[self.shape.parameter_count()..]
    }

    /// The head's own parameters, to be set.
    pub fn extra_mut(&mut self) -> &mut [f32] {
        let start = self.shape.parameter_count();
        &mut self.params[start..]
    }

    /// Output rows for `rows` rows of `x`; see [`MlpShape::forward`].
    pub fn forward<'t>(
        &self,
        kernel: Kernel,
        x: &[f32],
        rows: usize,
        tape: &'t mut Tape,
    ) -> &'t [f32] {
        self.shape.forward(kernel, &self.params, x, rows, tape)
    }

    /// Moves every parameter towards `source`: `self += rate (source - self)`.
    pub fn follow(&mut self, kernel: Kernel, rate: f32, source: &Network) {
        kernel.blend(rate, &source.params, &mut self.params);
    }

    /// Number of layers.
    pub fn layer_count(&self) -> usize {
        self.shape.layers().len()
    }

    /// Weights of one layer as `outputs` rows of `inputs` numbers (PyTorch's
    /// layout, also the one in files), its bias, and the two widths.
    pub fn layer(&self, index: usize) -> (Vec<f32>, Vec<f32>, [usize; 2]) {
        let layer = &self.shape.layers()[index];
        let stored = &self.params[layer.weights.clone()];
        let mut weights = stored.to_vec();
        if !layer.is_narrow() {
            for (i, row) in stored.chunks_exact(layer.outputs).enumerate() {
                for (o, w) in row.iter().enumerate() {
                    weights[o * layer.inputs + i] = *w;
                }
            }
        }
        (weights, self.params[layer.bias.clone()].to_vec(), [layer.outputs, layer.inputs])
    }

    /// Replaces one layer; `weights` are `outputs` rows of `inputs` numbers.
    ///
    /// # Panics
    /// If the lengths are not those of the layer: callers read them from a checked file
    /// or from an initialiser.
    pub fn set_layer(&mut self, index: usize, weights: &[f32], bias: &[f32]) {
        let layer = &self.shape.layers()[index];
        assert_eq!(weights.len(), layer.inputs * layer.outputs, "one weight per pair");
        let stored = &mut self.params[layer.weights.clone()];
        if layer.is_narrow() {
            stored.copy_from_slice(weights);
        } else {
            for (o, row) in weights.chunks_exact(layer.inputs).enumerate() {
                for (i, w) in row.iter().enumerate() {
                    stored[i * layer.outputs + o] = *w;
                }
            }
        }
        self.params[layer.bias.clone()].copy_from_slice(bias);
    }

    /// The network that reads all inputs but the last ones, which have these values for ever: they become a part of
    /// the first layer's bias.
    ///
    /// # Panics
    /// If no input is left.
    pub fn with_last_inputs_fixed(&self, values: &[f32]) -> Self {
        let mut widths = self.shape.widths();
        widths[0] -= values.len();
        let last = self.shape.layers().last().expect("a shape has a layer").activation;
        let shape = MlpShape::new(&widths, self.shape.activation(), last)
            .expect("a smaller network than one that exists, with an input left");
        let params = AlignedBuffer::zeros(shape.parameter_count() + self.extra);
        let mut this = Self { shape: Arc::new(shape), extra: self.extra, params };
        for index in 0..self.layer_count() {
            let (weights, mut bias, [_, inputs]) = self.layer(index);
            if index > 0 {
                this.set_layer(index, &weights, &bias);
                continue;
            }
            let left = inputs - values.len();
            let mut kept = Vec::with_capacity(left * bias.len());
            for (row, bias) in weights.chunks_exact(inputs).zip(&mut bias) {
                kept.extend_from_slice(&row[..left]);
                *bias += row[left..].iter().zip(values).map(|(w, x)| w * x).sum::<f32>();
            }
            this.set_layer(index, &kept, &bias);
        }
        this.extra_mut().copy_from_slice(self.extra());
        this
    }

    /// Bytes held by the parameters.
    pub fn bytes(&self) -> usize {
        self.params.bytes()
    }
}

impl Persist for Network {
    fn save(&self, name: &str, out: &mut Snapshot) {
        for index in 0..self.layer_count() {
            let (weights, bias, _) = self.layer(index);
            out.put_f32(&format!("{name}/{index}/weight"), weights);
            out.put_f32(&format!("{name}/{index}/bias"), bias);
        }
        if self.extra > 0 {
            out.put_f32(&format!("{name}/extra"), self.extra());
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let shape = Arc::clone(&self.shape);
        for (index, layer) in shape.layers().iter().enumerate() {
            let weights =
                from.f32s(&format!("{name}/{index}/weight"), layer.inputs * layer.outputs)?;
            let bias = from.f32s(&format!("{name}/{index}/bias"), layer.outputs)?;
            self.set_layer(index, weights, bias);
        }
        if self.extra > 0 {
            from.copy_f32s(&format!("{name}/extra"), self.extra_mut())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activation;

    #[test]
    fn inputs_that_are_fixed_become_a_bias() {
        // A wide and a narrow first layer are stored differently.
        for hidden in [64, 4] {
            let shape = MlpShape::new(&[5, hidden, 3], Activation::Tanh, Activation::Tanh).unwrap();
            let mut rng = Stream::from_seed(1);
            let mut network = Network::new(Arc::new(shape), 2, Init::UniformFanIn, &mut rng);
            network.extra_mut().copy_from_slice(&[0.5, -0.5]);
            let fixed = network.with_last_inputs_fixed(&[0.7, -1.2]);
            assert_eq!(fixed.shape().widths(), [3, hidden, 3]);
            assert_eq!(fixed.extra(), network.extra());
            let (kernel, mut tape) = (Kernel::best(), Tape::default());
            let expect =
                network.forward(kernel, &[0.1, 0.2, 0.3, 0.7, -1.2], 1, &mut tape).to_vec();
            let found = fixed.forward(kernel, &[0.1, 0.2, 0.3], 1, &mut tape);
            for (found, expect) in found.iter().zip(expect) {
                assert!((found - expect).abs() < 1e-5, "{found}, expected {expect}");
            }
        }
    }
}
