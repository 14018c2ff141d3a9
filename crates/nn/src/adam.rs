//! The Adam optimiser with bias correction.

use homeostat_core::{Persist, Snapshot};

use crate::kernel::{AdamStep, AlignedBuffer, Kernel};

/// Decay rates, and the constant that prevents division by zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamConfig {
    /// Decay of the gradient's running mean.
    pub beta1: f32,
    /// Decay of the gradient's running mean square.
    pub beta2: f32,
    /// Added to the root of the mean square.
    pub epsilon: f32,
}

impl Default for AdamConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

/// The moments of one slice of parameters.
#[derive(Debug, Clone)]
pub struct Adam {
    config: AdamConfig,
    mean: AlignedBuffer,
    square: AlignedBuffer,
    steps: u64,
}

impl Adam {
    /// Moments of zero for `parameter_count` parameters.
    pub fn new(config: AdamConfig, parameter_count: usize) -> Self {
        let zeros = AlignedBuffer::zeros(parameter_count);
        Self { config, mean: zeros.clone(), square: zeros, steps: 0 }
    }

    /// Moves `params` against `grads * grad_scale`. Returns false if a gradient was not finite: the
    /// parameters are then invalid, and the agent must stop.
    #[must_use = "after a gradient that is not finite the parameters are invalid"]
    pub fn step(
        &mut self,
        kernel: Kernel,
        learning_rate: f32,
        grad_scale: f32,
        grads: &[f32],
        params: &mut [f32],
    ) -> bool {
        self.steps += 1;
        let AdamConfig { beta1, beta2, epsilon } = self.config;
        // In double precision: 1 - beta2^t is tiny in the first steps.
        let correction = |beta: f32| 1.0 - f64::from(beta).powf(self.steps as f64);
        let step = AdamStep {
            rate: (f64::from(learning_rate) / correction(beta1)) as f32,
            beta1,
            beta2,
            square_scale: (1.0 / correction(beta2).sqrt()) as f32,
            epsilon,
            grad_scale,
        };
        kernel.adam(&step, grads, params, &mut self.mean, &mut self.square)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.mean.bytes() + self.square.bytes()
    }
}

impl Persist for Adam {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f32(&format!("{name}/mean"), &self.mean[..]);
        out.put_f32(&format!("{name}/square"), &self.square[..]);
        out.put_u64(&format!("{name}/steps"), [self.steps]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        from.copy_f32s(&format!("{name}/mean"), &mut self.mean)?;
        from.copy_f32s(&format!("{name}/square"), &mut self.square)?;
        self.steps = from.u64s(&format!("{name}/steps"), 1)?[0];
        Ok(())
    }
}

/// The factor that clips the joint norm of several gradients to `max_norm`; one if it is smaller.
pub fn clip_factor(kernel: Kernel, max_norm: f32, grads: &[&[f32]]) -> f32 {
    let norm = grads.iter().map(|grads| kernel.sum_of_squares(grads)).sum::<f32>().sqrt();
    // PyTorch adds the same small number, so results agree.
    (max_norm / (norm + 1e-6)).min(1.0)
}
