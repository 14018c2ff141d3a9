//! A pole on a cart: push the cart left or right so that the pole does not fall.
//! Barto, Sutton and Anderson (1983), with the constants of Gymnasium's CartPole-v1.

use std::f64::consts::PI;

use homeostat_core::{Persist, Result, Snapshot, Stream};

use super::OF_THE_SPACE;
use super::canvas::Canvas;
use crate::{Action, Card, Dynamics, EnvSpec, Field, Outcome, Space};

const GRAVITY: f64 = 9.8;
const CART_MASS: f64 = 1.0;
const POLE_MASS: f64 = 0.1;
const TOTAL_MASS: f64 = CART_MASS + POLE_MASS;
const POLE_HALF_LENGTH: f64 = 0.5;
const PUSH: f64 = 10.0;
const SECONDS_PER_STEP: f64 = 0.02;
const POSITION_LIMIT: f64 = 2.4;
const ANGLE_LIMIT: f64 = 12.0 * 2.0 * PI / 360.0;
const START: f64 = 0.05;

/// The cart and its pole.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CartPole {
    state: CartPoleState,
}

/// Position, angle and their velocities.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CartPoleState {
    /// Of the cart, in metres; zero is the middle of the track.
    pub position: f64,
    /// Of the cart, in metres per second.
    pub velocity: f64,
    /// Of the pole, in radians; zero is upright, positive leans right.
    pub angle: f64,
    /// Of the pole, in radians per second.
    pub angular_velocity: f64,
}

impl CartPole {
    /// The present state.
    pub fn state(&self) -> CartPoleState {
        self.state
    }

    /// Sets the state.
    pub fn set_state(&mut self, state: CartPoleState) {
        self.state = state;
    }
}

impl Dynamics for CartPole {
    fn spec(&self) -> EnvSpec {
        // Twice the limits, so that the state that ends an episode is inside too.
        let position = (2.0 * POSITION_LIMIT) as f32;
        let angle = (2.0 * ANGLE_LIMIT) as f32;
        let infinite = f32::INFINITY;
        EnvSpec {
            control: None,
            id: "classic/cartpole-v1".parse().expect("the id is well-formed"),
            observation: Space::Box {
                low: vec![-position, -infinite, -angle, -infinite],
                high: vec![position, infinite, angle, infinite],
            },
            action: Space::Discrete(2),
            time_limit: Some(500),
            card: Card {
                summary: "Balance a pole on a cart by pushing the cart left or right.",
                observation: vec![
                    Field::new("position", "of the cart, m, -4.8 to 4.8; starts within 0.05"),
                    Field::new("velocity", "of the cart, m/s, unbounded; starts within 0.05"),
                    Field::new(
                        "angle",
                        "of the pole from upright, rad, -0.419 to 0.419 (24 degrees), \
                         positive leans right; starts within 0.05",
                    ),
                    Field::new(
                        "angular velocity",
                        "of the pole, rad/s, unbounded; starts within 0.05",
                    ),
                ],
                action: vec![
                    Field::new("0", "push the cart left with 10 N for 0.02 s"),
                    Field::new("1", "push the cart right with 10 N for 0.02 s"),
                ],
                reward: "1 for every step, the one that ends the episode included",
                termination: "the pole leans more than 12 degrees, \
                              or the cart is more than 2.4 m from the middle",
                source: "Barto, Sutton and Anderson (1983); constants of Gymnasium CartPole-v1",
            },
        }
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.state = CartPoleState {
            position: rng.range(-START, START),
            velocity: rng.range(-START, START),
            angle: rng.range(-START, START),
            angular_velocity: rng.range(-START, START),
        };
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let force = if action.discrete().expect(OF_THE_SPACE) == 1 { PUSH } else { -PUSH };
        let CartPoleState { position, velocity, angle, angular_velocity } = self.state;
        let (sin, cos) = angle.sin_cos();
        let pole_moment = POLE_MASS * POLE_HALF_LENGTH;
        // The push and the swinging pole's centrifugal pull, shared by the whole mass.
        let drive = (force + pole_moment * angular_velocity * angular_velocity * sin) / TOTAL_MASS;
        let inertia = POLE_HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cos * cos / TOTAL_MASS);
        let angular_acceleration = (GRAVITY * sin - cos * drive) / inertia;
        let acceleration = drive - pole_moment * angular_acceleration * cos / TOTAL_MASS;
        // Explicit Euler: positions move with the old velocities. The semi-implicit form is more
        // accurate but would be another task.
        self.state = CartPoleState {
            position: position + SECONDS_PER_STEP * velocity,
            velocity: velocity + SECONDS_PER_STEP * acceleration,
            angle: angle + SECONDS_PER_STEP * angular_velocity,
            angular_velocity: angular_velocity + SECONDS_PER_STEP * angular_acceleration,
        };
        let lost =
            self.state.position.abs() > POSITION_LIMIT || self.state.angle.abs() > ANGLE_LIMIT;
        Outcome { reward: 1.0, terminated: lost }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs.copy_from_slice(&[
            self.state.position as f32,
            self.state.velocity as f32,
            self.state.angle as f32,
            self.state.angular_velocity as f32,
        ]);
    }

    fn render(&self) -> String {
        let CartPoleState { position, velocity, angle, angular_velocity } = self.state;
        let mut canvas = Canvas::new(49, 6, (-POSITION_LIMIT, POSITION_LIMIT), (-0.5, 1.0));
        let mark = match angle {
            lean if lean > 0.05 => '/',
            lean if lean < -0.05 => '\\',
            _ => '|',
        };
        canvas.line((-POSITION_LIMIT, -0.5), (POSITION_LIMIT, -0.5), '-');
        canvas.line((position, 0.1), (position + angle.sin(), angle.cos()), mark);
        for (offset, mark) in [(-0.1, '['), (0.0, '='), (0.1, ']')] {
            canvas.point(position + offset, -0.2, mark);
        }
        let degrees = 180.0 / PI;
        format!(
            "{canvas}cart {position:+.2} m {velocity:+.2} m/s   pole {:+.1} deg {:+.1} deg/s\n",
            angle * degrees,
            angular_velocity * degrees,
        )
    }
}

impl Persist for CartPole {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let CartPoleState { position, velocity, angle, angular_velocity } = self.state;
        out.put_f64(name, [position, velocity, angle, angular_velocity]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let values = from.f64s(name, 4)?;
        self.state = CartPoleState {
            position: values[0],
            velocity: values[1],
            angle: values[2],
            angular_velocity: values[3],
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_from(state: CartPoleState, choice: usize) -> (CartPoleState, Outcome) {
        let mut env = CartPole::default();
        env.set_state(state);
        let outcome = env.step(&Action::Discrete(choice), &mut Stream::from_seed(0));
        (env.state(), outcome)
    }

    #[test]
    fn a_push_from_rest_moves_the_cart_one_way_and_the_pole_the_other() {
        let (after, _) = step_from(CartPoleState::default(), 1);
        assert!(after.velocity > 0.0 && after.angular_velocity < 0.0);
        // Positions follow one step later: the integrator is explicit.
        assert_eq!((after.position, after.angle), (0.0, 0.0));
    }

    #[test]
    fn the_mirrored_push_from_the_mirrored_state_gives_the_mirrored_result() {
        let state =
            CartPoleState { position: 0.3, velocity: -0.2, angle: 0.1, angular_velocity: 0.7 };
        let mirror = |state: CartPoleState| CartPoleState {
            position: -state.position,
            velocity: -state.velocity,
            angle: -state.angle,
            angular_velocity: -state.angular_velocity,
        };
        assert_eq!(step_from(mirror(state), 0).0, mirror(step_from(state, 1).0));
    }

    #[test]
    fn an_episode_ends_beyond_the_limits_and_the_last_step_is_paid() {
        let check = |position: f64, angle: f64, expect: bool| {
            let state = CartPoleState { position, angle, ..CartPoleState::default() };
            let (_, outcome) = step_from(state, 0);
            assert_eq!(outcome, Outcome { reward: 1.0, terminated: expect }, "{state:?}");
        };
        check(POSITION_LIMIT, 0.0, false);
        check(POSITION_LIMIT + 1e-9, 0.0, true);
        check(-POSITION_LIMIT - 1e-9, 0.0, true);
        check(0.0, ANGLE_LIMIT, false);
        check(0.0, -ANGLE_LIMIT - 1e-9, true);
    }

    #[test]
    fn the_picture_shows_cart_and_pole() {
        let mut env = CartPole::default();
        env.set_state(CartPoleState { angle: 0.2, ..CartPoleState::default() });
        let picture = env.render();
        assert!(picture.contains("[=]") && picture.contains('/'), "{picture}");
    }
}
