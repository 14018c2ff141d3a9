//! Repeat the observation as the action: a task that every working learner solves. One variant for
//! each kind of space, so that each kind of policy head has one.

use homeostat_core::{Persist, Result, Snapshot, Stream};

use super::OF_THE_SPACE;
use crate::{Action, Card, Dynamics, EnvSpec, Field, Outcome, Space};

const SOURCE: &str = "the identity environments of Stable-Baselines3's tests";

/// Shows a random member of a space and rewards repeating it.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    space: Space,
    shown: Vec<f32>,
}

impl Identity {
    /// One of four choices.
    pub fn discrete() -> Self {
        Self::over(Space::Discrete(4))
    }

    /// Two components, with three and four choices.
    pub fn multi_discrete() -> Self {
        Self::over(Space::MultiDiscrete(vec![3, 4]))
    }

    /// A point in a square.
    pub fn continuous() -> Self {
        Self::over(Space::uniform_box(2, -1.0, 1.0))
    }

    fn over(space: Space) -> Self {
        let shown = vec![0.0; space.len()];
        Self { space, shown }
    }

    /// The member shown now.
    pub fn shown(&self) -> &[f32] {
        &self.shown
    }

    /// Shows `member`, which must be inside the space.
    pub fn show(&mut self, member: &Action) {
        debug_assert!(self.space.contains(member), "{member} is outside {}", self.space);
        self.shown = numbers(member);
    }
}

/// The observation that shows an action.
fn numbers(action: &Action) -> Vec<f32> {
    match action {
        Action::Discrete(choice) => vec![*choice as f32],
        Action::MultiDiscrete(choices) => choices.iter().map(|choice| *choice as f32).collect(),
        Action::Continuous(values) => values.clone(),
    }
}

impl Dynamics for Identity {
    fn spec(&self) -> EnvSpec {
        let (id, reward, observation, action) = match self.space {
            Space::Discrete(_) => (
                "toy/identity-v1",
                "1 if the action is the number shown, else 0",
                vec![Field::new("number", "0 to 3, drawn in every step")],
                vec![Field::new("number", "0 to 3: the number to repeat")],
            ),
            Space::MultiDiscrete(_) => (
                "toy/identity-multi-v1",
                "the fraction of the numbers that were repeated: 0, 0.5 or 1",
                vec![
                    Field::new("first", "0 to 2, drawn in every step"),
                    Field::new("second", "0 to 3, drawn in every step"),
                ],
                vec![
                    Field::new("first", "0 to 2: the first number to repeat"),
                    Field::new("second", "0 to 3: the second number to repeat"),
                ],
            ),
            Space::Box { .. } => (
                "toy/identity-box-v1",
                "-(mean squared distance of the action from the point shown): -4 to 0",
                vec![
                    Field::new("x", "no unit, -1 to 1, drawn in every step"),
                    Field::new("y", "no unit, -1 to 1, drawn in every step"),
                ],
                vec![
                    Field::new("x", "no unit, -1 to 1: the x to repeat"),
                    Field::new("y", "no unit, -1 to 1: the y to repeat"),
                ],
            ),
        };
        EnvSpec {
            control: None,
            id: id.parse().expect("the id is well-formed"),
            observation: self.space.clone(),
            action: self.space.clone(),
            time_limit: Some(100),
            card: Card {
                summary: "Repeat the observation as the action.",
                observation,
                action,
                reward,
                termination: "never",
                source: SOURCE,
            },
        }
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.shown = numbers(&self.space.sample(rng));
    }

    fn step(&mut self, action: &Action, rng: &mut Stream) -> Outcome {
        let answer = numbers(action);
        let pairs = || answer.iter().zip(&self.shown);
        let parts = self.shown.len() as f64;
        let reward = match self.space {
            Space::Discrete(_) | Space::MultiDiscrete(_) => {
                pairs().filter(|(answer, shown)| answer == shown).count() as f64 / parts
            }
            Space::Box { .. } => {
                let squared = |(answer, shown): (&f32, &f32)| {
                    (f64::from(*answer) - f64::from(*shown)).powi(2)
                };
                -pairs().map(squared).sum::<f64>() / parts
            }
        };
        debug_assert!(self.space.contains(action), "{OF_THE_SPACE}");
        self.shown = numbers(&self.space.sample(rng));
        Outcome { reward, terminated: false }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs.copy_from_slice(&self.shown);
    }

    fn render(&self) -> String {
        format!("repeat {:?}\n", self.shown)
    }
}

impl Persist for Identity {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f32(name, self.shown.as_slice());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        self.shown = from.f32s(name, self.space.len())?.to_vec();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut env: Identity, shown: Action, answer: Action, expect: f64) {
        env.show(&shown);
        let outcome = env.step(&answer, &mut Stream::from_seed(0));
        assert_eq!(outcome, Outcome { reward: expect, terminated: false }, "{shown} {answer}");
    }

    #[test]
    fn repeating_is_paid_and_nothing_else() {
        let check = |shown, answer, expect| {
            check(Identity::discrete(), Action::Discrete(shown), Action::Discrete(answer), expect);
        };
        check(3, 3, 1.0);
        check(3, 2, 0.0);
    }

    #[test]
    fn each_repeated_number_is_paid_its_part() {
        let check = |answer: [usize; 2], expect| {
            let (shown, answer) = (vec![2, 3], answer.to_vec());
            let env = Identity::multi_discrete();
            check(env, Action::MultiDiscrete(shown), Action::MultiDiscrete(answer), expect);
        };
        check([2, 3], 1.0);
        check([2, 0], 0.5);
        check([0, 0], 0.0);
    }

    #[test]
    fn distance_costs_its_mean_square() {
        let check = |answer: [f32; 2], expect| {
            let (shown, answer) = (vec![0.5, -0.5], answer.to_vec());
            let env = Identity::continuous();
            check(env, Action::Continuous(shown), Action::Continuous(answer), expect);
        };
        check([0.5, -0.5], 0.0);
        check([0.0, -0.5], -0.125);
        check([-0.5, 0.5], -1.0);
    }
}
