//! Initialisation of weights.

use homeostat_core::Stream;

/// How the weights of a layer are drawn; biases follow the weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Orthogonal rows or columns times a gain, biases zero: the common choice for policy
    /// gradients. The last layer has its own gain, small for policies.
    Orthogonal {
        /// Gain of the hidden layers.
        hidden: f32,
        /// Gain of the last layer.
        output: f32,
    },
    /// Uniform in plus or minus one over the root of the number of inputs, biases too: PyTorch's
    /// default.
    UniformFanIn,
}

impl Init {
    /// Orthogonal with gain sqrt(2), and `output` for the last layer.
    pub fn orthogonal(output: f32) -> Self {
        Self::Orthogonal { hidden: std::f32::consts::SQRT_2, output }
    }

    /// Weights of one layer, `outputs` rows of `inputs` numbers, and its bias.
    pub(crate) fn draw(
        self,
        rng: &mut Stream,
        inputs: usize,
        outputs: usize,
        is_last: bool,
    ) -> (Vec<f32>, Vec<f32>) {
        match self {
            Self::Orthogonal { hidden, output } => {
                let gain = if is_last { output } else { hidden };
                (orthogonal(rng, outputs, inputs, gain), vec![0.0; outputs])
            }
            Self::UniformFanIn => {
                let bound = 1.0 / (inputs as f64).sqrt();
                let mut draw = |len| (0..len).map(|_| rng.range(-bound, bound) as f32).collect();
                (draw(inputs * outputs), draw(outputs))
            }
        }
    }
}

/// A matrix whose shorter side is a set of orthonormal vectors times `gain`, by
/// Gram-Schmidt on normal draws, in double precision.
fn orthogonal(rng: &mut Stream, rows: usize, columns: usize, gain: f32) -> Vec<f32> {
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut vector: Vec<f64> = (0..length).map(|_| rng.normal()).collect();
        // A second pass removes the rounding errors of the first.
        for _ in 0..2 {
            for other in &basis {
                let overlap: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
                vector.iter_mut().zip(other).for_each(|(a, b)| *a -= overlap * b);
            }
        }
        let norm = vector.iter().map(|a| a * a).sum::<f64>().sqrt();
        // A draw inside the span of the others has no component left: draw again.
        if norm > 1e-9 {
            basis.push(vector.into_iter().map(|a| a / norm).collect());
        }
    }
    let cell = |row: usize, column: usize| {
        if rows <= columns { basis[row][column] } else { basis[column][row] }
    };
    let gain = f64::from(gain);
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(row, column)| (gain * cell(row, column)) as f32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_shorter_side_is_orthonormal(seed in any::<u64>(), rows in 1usize..20, columns in 1usize..20) {
            let w = orthogonal(&mut Stream::from_seed(seed), rows, columns, 1.0);
            let cell = |i: usize, k: usize| {
                f64::from(if rows <= columns { w[i * columns + k] } else { w[k * columns + i] })
            };
            let (count, length) = (rows.min(columns), rows.max(columns));
            for i in 0..count {
                for j in 0..count {
                    let dot: f64 = (0..length).map(|k| cell(i, k) * cell(j, k)).sum();
                    let expect = if i == j { 1.0 } else { 0.0 };
                    prop_assert!((dot - expect).abs() < 1e-5);
                }
            }
        }

        #[test]
        fn uniform_draws_stay_within_the_fan_in(seed in any::<u64>(), inputs in 1usize..50) {
            let (weights, bias) = Init::UniformFanIn.draw(&mut Stream::from_seed(seed), inputs, 7, false);
            let bound = 1.0 / (inputs as f32).sqrt();
            prop_assert!(weights.iter().chain(&bias).all(|w| w.abs() <= bound));
        }
    }
}
