//! Exploration noise for continuous actions.

use homeostat_core::{Persist, Snapshot, Stream};
use serde::{Deserialize, Serialize};

/// Which noise, in units of the action range [-1, 1].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum NoiseConfig {
    /// Independent draws.
    Gaussian {
        /// Standard deviation.
        sigma: f32,
    },
    /// Ornstein-Uhlenbeck: draws that drift back to zero, so that neighbouring
    /// steps push the same way.
    OrnsteinUhlenbeck {
        /// Standard deviation of each push.
        sigma: f32,
        /// Part of the distance to zero that is lost in a step.
        theta: f32,
    },
}

/// The state of one environment's noise.
#[derive(Debug, Clone)]
pub(crate) struct Noise {
    config: NoiseConfig,
    present: Vec<f32>,
}

impl Noise {
    pub(crate) fn new(config: NoiseConfig, len: usize) -> Self {
        Self { config, present: vec![0.0; len] }
    }

    /// A new episode starts undisturbed.
    pub(crate) fn reset(&mut self) {
        self.present.fill(0.0);
    }

    pub(crate) fn next(&mut self, rng: &mut Stream) -> &[f32] {
        for value in &mut self.present {
            let draw = rng.normal() as f32;
            *value = match self.config {
                NoiseConfig::Gaussian { sigma } => sigma * draw,
                NoiseConfig::OrnsteinUhlenbeck { sigma, theta } => {
                    *value - theta * *value + sigma * draw
                }
            };
        }
        &self.present
    }
}

impl Persist for Noise {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f32(name, self.present.as_slice());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        from.copy_f32s(name, &mut self.present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deviation_and_correlation(config: NoiseConfig) -> (f64, f64) {
        let (mut noise, mut rng) = (Noise::new(config, 1), Stream::from_seed(3));
        let draws: Vec<f64> = (0..200_000).map(|_| f64::from(noise.next(&mut rng)[0])).collect();
        let variance = draws.iter().map(|x| x * x).sum::<f64>() / draws.len() as f64;
        let neighbours =
            draws.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / draws.len() as f64;
        (variance.sqrt(), neighbours / variance)
    }

    #[test]
    fn gaussian_noise_is_independent() {
        let (deviation, correlation) =
            deviation_and_correlation(NoiseConfig::Gaussian { sigma: 0.2 });
        assert!((deviation - 0.2).abs() < 0.002, "{deviation}");
        assert!(correlation.abs() < 0.01, "{correlation}");
    }

    #[test]
    fn ornstein_uhlenbeck_noise_remembers() {
        // A first-order process with factor 0.85 has variance sigma^2 / (1 - 0.85^2).
        let config = NoiseConfig::OrnsteinUhlenbeck { sigma: 0.2, theta: 0.15 };
        let (deviation, correlation) = deviation_and_correlation(config);
        let expect = 0.2 / (1.0f64 - 0.85 * 0.85).sqrt();
        assert!((deviation - expect).abs() < 0.01, "{deviation}");
        assert!((correlation - 0.85).abs() < 0.01, "{correlation}");
    }
}
