//! A car in a valley, too weak to climb out: swing back to gather speed.
//! Moore (1990), with the constants of Gymnasium's MountainCar-v0.

use homeostat_core::{Persist, Result, Snapshot, Stream};

use super::OF_THE_SPACE;
use super::canvas::Canvas;
use crate::{Action, Card, Dynamics, EnvSpec, Field, Outcome, Space};

const LEFT_WALL: f64 = -1.2;
const RIGHT_END: f64 = 0.6;
const FLAG: f64 = 0.5;
const MAX_SPEED: f64 = 0.07;
const ENGINE: f64 = 0.001;
const SLOPE: f64 = 0.0025;

/// The car in its valley.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MountainCar {
    state: MountainCarState,
}

/// Position and velocity.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MountainCarState {
    /// Along the road, from -1.2 at the left wall; the valley floor is at -pi/6.
    pub position: f64,
    /// In positions per step.
    pub velocity: f64,
}

impl MountainCar {
    /// The present state.
    pub fn state(&self) -> MountainCarState {
        self.state
    }

    /// Sets the state.
    pub fn set_state(&mut self, state: MountainCarState) {
        self.state = state;
    }
}

fn height(position: f64) -> f64 {
    (3.0 * position).sin()
}

impl Dynamics for MountainCar {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            control: None,
            id: "classic/mountain-car-v0".parse().expect("the id is well-formed"),
            observation: Space::Box {
                low: vec![LEFT_WALL as f32, -MAX_SPEED as f32],
                high: vec![RIGHT_END as f32, MAX_SPEED as f32],
            },
            action: Space::Discrete(3),
            time_limit: Some(200),
            card: Card {
                summary: "Drive a weak car out of a valley by swinging back and forth.",
                observation: vec![
                    Field::new("position", "along the road, -1.2 to 0.6; starts in -0.6 to -0.4"),
                    Field::new("velocity", "positions per step, -0.07 to 0.07; starts at 0"),
                ],
                action: vec![
                    Field::new("0", "accelerate left by 0.001 per step"),
                    Field::new("1", "coast"),
                    Field::new("2", "accelerate right by 0.001 per step"),
                ],
                reward: "-1 for every step, the one that reaches the flag included",
                termination: "the position reaches 0.5, the flag, while not rolling back",
                source: "Moore (1990); constants of Gymnasium MountainCar-v0",
            },
        }
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.state = MountainCarState { position: rng.range(-0.6, -0.4), velocity: 0.0 };
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let direction = action.discrete().expect(OF_THE_SPACE) as f64 - 1.0;
        let MountainCarState { position, velocity } = self.state;
        let acceleration = direction * ENGINE - SLOPE * (3.0 * position).cos();
        let mut velocity = (velocity + acceleration).clamp(-MAX_SPEED, MAX_SPEED);
        let position = (position + velocity).clamp(LEFT_WALL, RIGHT_END);
        if position == LEFT_WALL && velocity < 0.0 {
            velocity = 0.0;
        }
        self.state = MountainCarState { position, velocity };
        Outcome { reward: -1.0, terminated: position >= FLAG && velocity >= 0.0 }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs.copy_from_slice(&[self.state.position as f32, self.state.velocity as f32]);
    }

    fn render(&self) -> String {
        let MountainCarState { position, velocity } = self.state;
        let columns = 46;
        let mut canvas = Canvas::new(columns, 8, (LEFT_WALL, RIGHT_END), (-1.0, 1.3));
        for column in 0..columns {
            let x = LEFT_WALL + (RIGHT_END - LEFT_WALL) * column as f64 / (columns - 1) as f64;
            canvas.point(x, height(x), '.');
        }
        canvas.point(FLAG, height(FLAG) + 0.3, 'P');
        canvas.point(position, height(position), 'o');
        format!("{canvas}position {position:+.3}   velocity {velocity:+.4} per step\n")
    }
}

impl Persist for MountainCar {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f64(name, [self.state.position, self.state.velocity]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let values = from.f64s(name, 2)?;
        self.state = MountainCarState { position: values[0], velocity: values[1] };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays `policy` from the valley floor; the number of steps to the flag.
    fn steps_to_the_flag(policy: impl Fn(MountainCarState) -> usize) -> Option<u32> {
        let mut env = MountainCar::default();
        env.set_state(MountainCarState { position: -0.5, velocity: 0.0 });
        let mut rng = Stream::from_seed(0);
        (1..=200).find(|_| {
            let action = Action::Discrete(policy(env.state()));
            env.step(&action, &mut rng).terminated
        })
    }

    #[test]
    fn full_throttle_alone_never_arrives_but_swinging_does() {
        assert_eq!(steps_to_the_flag(|_| 2), None);
        let swing = steps_to_the_flag(|state| if state.velocity < 0.0 { 0 } else { 2 });
        assert!(swing.is_some_and(|steps| steps < 130), "{swing:?}");
    }

    #[test]
    fn the_left_wall_stops_the_car() {
        let mut env = MountainCar::default();
        env.set_state(MountainCarState { position: -1.19, velocity: -0.07 });
        env.step(&Action::Discrete(0), &mut Stream::from_seed(0));
        assert_eq!(env.state(), MountainCarState { position: LEFT_WALL, velocity: 0.0 });
    }

    #[test]
    fn the_picture_shows_car_and_flag() {
        let picture = MountainCar::default().render();
        assert!(picture.contains('o') && picture.contains('P'), "{picture}");
    }
}
