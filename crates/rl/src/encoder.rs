//! From observations to network inputs.

use homeostat_env::Space;

/// Features of an observation: numbers of a box as they are, choices one-hot.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoder {
    observation: Space,
}

impl Encoder {
    /// The encoder of this space.
    pub fn new(observation: &Space) -> Self {
        Self { observation: observation.clone() }
    }

    /// Numbers of one encoded observation.
    pub fn features(&self) -> usize {
        match &self.observation {
            Space::Box { low, .. } => low.len(),
            Space::Discrete(n) => *n,
            Space::MultiDiscrete(n) => n.iter().sum(),
        }
    }

    /// Writes the features of one observation.
    pub fn encode(&self, obs: &[f32], features: &mut [f32]) {
        match &self.observation {
            Space::Box { .. } => features.copy_from_slice(obs),
            Space::Discrete(n) => one_hot(obs[0], *n, features),
            Space::MultiDiscrete(n) => {
                let mut rest = features;
                for (obs, n) in obs.iter().zip(n) {
                    let (group, behind) = rest.split_at_mut(*n);
                    one_hot(*obs, *n, group);
                    rest = behind;
                }
            }
        }
    }
}

fn one_hot(index: f32, n: usize, features: &mut [f32]) {
    features.fill(0.0);
    features[(index as usize).min(n - 1)] = 1.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_choices_become_one_hot() {
        let check = |space: Space, obs: &[f32], expect: &[f32]| {
            let encoder = Encoder::new(&space);
            let mut features = vec![f32::NAN; encoder.features()];
            encoder.encode(obs, &mut features);
            assert_eq!(features, expect, "{obs:?} of {space}");
        };
        check(Space::uniform_box(2, -1.0, 1.0), &[0.5, -0.5], &[0.5, -0.5]);
        check(Space::Discrete(3), &[1.0], &[0.0, 1.0, 0.0]);
        check(Space::MultiDiscrete(vec![2, 3]), &[1.0, 0.0], &[0.0, 1.0, 1.0, 0.0, 0.0]);
        // What is outside the space is taken for the nearest inside.
        check(Space::Discrete(3), &[7.0], &[0.0, 0.0, 1.0]);
    }
}
