//! Spaces of observations and actions.

use std::fmt;

use homeostat_core::Stream;

use crate::{Action, Error, Result};

/// A set of observations or actions.
///
/// An observation of a discrete space is a single number, the index; learners encode it, for
/// example one-hot.
#[derive(Debug, Clone, PartialEq)]
pub enum Space {
    /// A box of real numbers, each with its own bounds, which may be infinite.
    Box {
        /// Lower bounds.
        low: Vec<f32>,
        /// Upper bounds.
        high: Vec<f32>,
    },
    /// The numbers 0..n.
    Discrete(usize),
    /// One of n choices in each of several components.
    MultiDiscrete(Vec<usize>),
}

impl Space {
    /// A box with the same bounds in each of `len` dimensions.
    pub fn uniform_box(len: usize, low: f32, high: f32) -> Self {
        Self::Box { low: vec![low; len], high: vec![high; len] }
    }

    /// An error for empty spaces, reversed or NaN bounds, and components without choices.
    pub fn validate(&self) -> Result<()> {
        let impossible = |what: String| Err(Error::ImpossibleSpace { what });
        match self {
            Self::Box { low, high } => {
                if low.len() != high.len() {
                    return impossible(format!(
                        "{} lower and {} upper bounds",
                        low.len(),
                        high.len()
                    ));
                }
                if low.is_empty() {
                    return impossible("a box without dimensions".to_owned());
                }
                for (i, (low, high)) in low.iter().zip(high).enumerate() {
                    if low.is_nan() || high.is_nan() || low > high {
                        return impossible(format!(
                            "dimension {i} has the bounds {low} and {high}"
                        ));
                    }
                }
                Ok(())
            }
            Self::Discrete(0) => impossible("a discrete space without choices".to_owned()),
            Self::MultiDiscrete(choices) if choices.is_empty() || choices.contains(&0) => {
                impossible(format!("choices {choices:?}"))
            }
            Self::Discrete(_) | Self::MultiDiscrete(_) => Ok(()),
        }
    }

    /// Numbers in one observation of this space.
    pub fn len(&self) -> usize {
        match self {
            Self::Box { low, .. } => low.len(),
            Self::Discrete(_) => 1,
            Self::MultiDiscrete(choices) => choices.len(),
        }
    }

    /// Whether observations of this space hold no numbers; never for a valid space.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the action is inside this space. NaN is outside of every box.
    pub fn contains(&self, action: &Action) -> bool {
        match (self, action) {
            (Self::Discrete(n), Action::Discrete(choice)) => choice < n,
            (Self::MultiDiscrete(n), Action::MultiDiscrete(choices)) => {
                n.len() == choices.len() && choices.iter().zip(n).all(|(choice, n)| choice < n)
            }
            (Self::Box { .. }, Action::Continuous(values)) => self.contains_observation(values),
            _ => false,
        }
    }

    /// Whether the observation is inside this space. NaN is outside of every space.
    pub fn contains_observation(&self, obs: &[f32]) -> bool {
        let is_index =
            |value: f32, n: usize| value >= 0.0 && value < n as f32 && value.fract() == 0.0;
        match self {
            Self::Box { low, high } => {
                obs.len() == low.len()
                    && obs
                        .iter()
                        .zip(low.iter().zip(high))
                        .all(|(x, (low, high))| low <= x && x <= high)
            }
            Self::Discrete(n) => matches!(obs, [value] if is_index(*value, *n)),
            Self::MultiDiscrete(n) => {
                obs.len() == n.len() && obs.iter().zip(n).all(|(value, n)| is_index(*value, *n))
            }
        }
    }

    /// The neutral action: choice 0, which scaling environments define as "change nothing"; the
    /// middle choice of each component of a multi-discrete space, because components are
    /// set-points; in a box the point nearest to zero.
    pub fn hold(&self) -> Action {
        match self {
            Self::Discrete(_) => Action::Discrete(0),
            Self::MultiDiscrete(n) => Action::MultiDiscrete(n.iter().map(|n| n / 2).collect()),
            Self::Box { low, high } => Action::Continuous(
                low.iter().zip(high).map(|(low, high)| 0.0_f32.clamp(*low, *high)).collect(),
            ),
        }
    }

    /// A random action: uniform between finite bounds, else normal around zero or exponential
    /// from the finite bound, as Gymnasium samples.
    pub fn sample(&self, rng: &mut Stream) -> Action {
        match self {
            Self::Discrete(n) => Action::Discrete(rng.below(*n)),
            Self::MultiDiscrete(n) => {
                Action::MultiDiscrete(n.iter().map(|n| rng.below(*n)).collect())
            }
            Self::Box { low, high } => Action::Continuous(
                low.iter().zip(high).map(|(low, high)| sample_between(*low, *high, rng)).collect(),
            ),
        }
    }
}

fn sample_between(low: f32, high: f32, rng: &mut Stream) -> f32 {
    let exponential = |rng: &mut Stream| -(1.0 - rng.uniform()).ln();
    let value = match (low.is_finite(), high.is_finite()) {
        (true, true) => rng.range(f64::from(low), f64::from(high)),
        (true, false) => f64::from(low) + exponential(rng),
        (false, true) => f64::from(high) - exponential(rng),
        (false, false) => rng.normal(),
    };
    (value as f32).clamp(low, high)
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discrete(n) => write!(f, "Discrete({n})"),
            Self::MultiDiscrete(n) => write!(f, "MultiDiscrete({n:?})"),
            Self::Box { low, high } => {
                let same = |ends: &[f32]| ends.iter().all(|end| *end == ends[0]);
                if !low.is_empty() && same(low) && same(high) {
                    write!(f, "Box({}..={}, {})", low[0], high[0], low.len())
                } else {
                    write!(f, "Box({low:?}..={high:?})")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spaces() -> impl Strategy<Value = Space> {
        let end = prop_oneof![Just(f32::INFINITY), 0.0f32..5.0];
        prop_oneof![
            (1usize..9).prop_map(Space::Discrete),
            prop::collection::vec(1usize..6, 1..5).prop_map(Space::MultiDiscrete),
            prop::collection::vec((end.clone(), end), 1..5).prop_map(|ends| Space::Box {
                low: ends.iter().map(|(low, _)| -low).collect(),
                high: ends.iter().map(|(_, high)| *high).collect(),
            }),
        ]
    }

    proptest! {
        #[test]
        fn every_sample_is_contained(space in spaces(), seed in any::<u64>()) {
            space.validate().unwrap();
            let mut rng = Stream::from_seed(seed);
            for _ in 0..20 {
                prop_assert!(space.contains(&space.sample(&mut rng)));
            }
        }
    }

    #[test]
    fn holding_is_an_action_of_every_space() {
        for space in [
            Space::Discrete(3),
            Space::MultiDiscrete(vec![1, 2, 5]),
            Space::uniform_box(2, -1.0, 1.0),
            Space::Box { low: vec![0.5, f32::NEG_INFINITY], high: vec![f32::INFINITY, -2.0] },
        ] {
            assert!(space.contains(&space.hold()), "{space}");
        }
    }

    #[test]
    fn nothing_foreign_is_contained() {
        let check = |space: Space, action: Action| assert!(!space.contains(&action), "{action}");
        check(Space::Discrete(3), Action::Discrete(3));
        check(Space::Discrete(3), Action::Continuous(vec![1.0]));
        check(Space::MultiDiscrete(vec![2, 2]), Action::MultiDiscrete(vec![1]));
        check(Space::uniform_box(1, -1.0, 1.0), Action::Continuous(vec![f32::NAN]));
        check(Space::uniform_box(1, -1.0, 1.0), Action::Continuous(vec![1.5]));
        assert!(!Space::Discrete(3).contains_observation(&[1.5]));
        assert!(!Space::Discrete(3).contains_observation(&[-1.0]));
    }

    #[test]
    fn impossible_spaces_are_refused() {
        for space in [
            Space::Discrete(0),
            Space::MultiDiscrete(vec![2, 0]),
            Space::uniform_box(0, 0.0, 1.0),
            Space::uniform_box(2, 1.0, 0.0),
            Space::uniform_box(1, f32::NAN, 0.0),
        ] {
            assert!(space.validate().is_err(), "{space}");
        }
    }
}
