//! Two links that hang from a fixed joint, with a motor between them: swing the
//! free end above the line. Sutton (1996) with the equations of motion of Sutton
//! and Barto's book, and the constants of Gymnasium's Acrobot-v1.

use std::f64::consts::PI;

use homeostat_core::{Persist, Result, Snapshot, Stream};

use super::OF_THE_SPACE;
use super::canvas::Canvas;
use crate::{Action, Card, Dynamics, EnvSpec, Field, Outcome, Space};

const GRAVITY: f64 = 9.8;
// Both links are alike: mass 1 kg, length 1 m, centre of mass in the middle.
const MASS: f64 = 1.0;
const LENGTH: f64 = 1.0;
const CENTRE: f64 = 0.5;
const INERTIA: f64 = 1.0;
const MAX_VELOCITY_1: f64 = 4.0 * PI;
const MAX_VELOCITY_2: f64 = 9.0 * PI;
const SECONDS_PER_STEP: f64 = 0.2;
const LINE: f64 = 1.0;
const START: f64 = 0.1;

/// The two links.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Acrobot {
    state: AcrobotState,
}

/// Angles and angular velocities.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AcrobotState {
    /// Of the upper link, in radians; zero hangs down.
    pub angle_1: f64,
    /// Of the lower link against the upper one, in radians; zero is straight.
    pub angle_2: f64,
    /// Of the upper link, in radians per second.
    pub velocity_1: f64,
    /// Of the lower link against the upper one, in radians per second.
    pub velocity_2: f64,
}

impl Acrobot {
    /// The present state.
    pub fn state(&self) -> AcrobotState {
        self.state
    }

    /// Sets the state.
    pub fn set_state(&mut self, state: AcrobotState) {
        self.state = state;
    }
}

impl AcrobotState {
    fn from_array([angle_1, angle_2, velocity_1, velocity_2]: [f64; 4]) -> Self {
        Self { angle_1, angle_2, velocity_1, velocity_2 }
    }

    fn to_array(self) -> [f64; 4] {
        [self.angle_1, self.angle_2, self.velocity_1, self.velocity_2]
    }

    /// Positions of the joint between the links and of the free end, in metres from the fixed
    /// joint.
    fn places(self) -> [(f64, f64); 2] {
        let (sin_1, cos_1) = self.angle_1.sin_cos();
        let (sin_12, cos_12) = (self.angle_1 + self.angle_2).sin_cos();
        let elbow = (LENGTH * sin_1, -LENGTH * cos_1);
        [elbow, (elbow.0 + LENGTH * sin_12, elbow.1 - LENGTH * cos_12)]
    }

    /// Time derivative under `torque`: the book's equations, whose `d1`, `d2`,
    /// `phi1` and `phi2` are the names below.
    fn derivative(self, torque: f64) -> [f64; 4] {
        let Self { angle_1, angle_2, velocity_1, velocity_2 } = self;
        let (sin_2, cos_2) = angle_2.sin_cos();
        let coupling = MASS * LENGTH * CENTRE;
        let own = MASS * CENTRE * CENTRE + INERTIA;
        let d1 = 2.0 * own + MASS * LENGTH * LENGTH + 2.0 * coupling * cos_2;
        let d2 = own + coupling * cos_2;
        let phi2 = MASS * CENTRE * GRAVITY * (angle_1 + angle_2).sin();
        let phi1 = -coupling * velocity_2 * (velocity_2 + 2.0 * velocity_1) * sin_2
            + (MASS * CENTRE + MASS * LENGTH) * GRAVITY * angle_1.sin()
            + phi2;
        let acceleration_2 =
            (torque + d2 / d1 * phi1 - coupling * velocity_1 * velocity_1 * sin_2 - phi2)
                / (own - d2 * d2 / d1);
        let acceleration_1 = -(d2 * acceleration_2 + phi1) / d1;
        [velocity_1, velocity_2, acceleration_1, acceleration_2]
    }

    /// One step of the classic fourth-order Runge-Kutta method.
    fn integrate(self, torque: f64, seconds: f64) -> Self {
        let here = self.to_array();
        let ahead = |slope: [f64; 4], seconds: f64| {
            Self::from_array(std::array::from_fn(|i| here[i] + seconds * slope[i]))
        };
        let first = self.derivative(torque);
        let second = ahead(first, seconds / 2.0).derivative(torque);
        let third = ahead(second, seconds / 2.0).derivative(torque);
        let fourth = ahead(third, seconds).derivative(torque);
        let mean = std::array::from_fn(|i| {
            (first[i] + 2.0 * second[i] + 2.0 * third[i] + fourth[i]) / 6.0
        });
        ahead(mean, seconds)
    }
}

/// The same direction as an angle in [-pi, pi]. Both bounds are kept.
fn without_whole_turns(mut angle: f64) -> f64 {
    while angle > PI {
        angle -= 2.0 * PI;
    }
    while angle < -PI {
        angle += 2.0 * PI;
    }
    angle
}

impl Dynamics for Acrobot {
    fn spec(&self) -> EnvSpec {
        let high = vec![1.0, 1.0, 1.0, 1.0, MAX_VELOCITY_1 as f32, MAX_VELOCITY_2 as f32];
        EnvSpec {
            control: None,
            id: "classic/acrobot-v1".parse().expect("the id is well-formed"),
            observation: Space::Box { low: high.iter().map(|end| -end).collect(), high },
            action: Space::Discrete(3),
            time_limit: Some(500),
            card: Card {
                summary: "Swing the free end of two hanging links above a line, \
                          with a motor at the middle joint only.",
                observation: vec![
                    Field::new("cos(angle 1)", "of the upper link, -1 to 1; 1 hangs down"),
                    Field::new("sin(angle 1)", "of the upper link, -1 to 1"),
                    Field::new("cos(angle 2)", "lower against upper link, -1 to 1; 1 is straight"),
                    Field::new("sin(angle 2)", "lower against upper link, -1 to 1"),
                    Field::new("velocity 1", "of angle 1, rad/s, -4 pi to 4 pi"),
                    Field::new("velocity 2", "of angle 2, rad/s, -9 pi to 9 pi"),
                ],
                action: vec![
                    Field::new("0", "torque of -1 N m at the middle joint for 0.2 s"),
                    Field::new("1", "no torque"),
                    Field::new("2", "torque of 1 N m at the middle joint for 0.2 s"),
                ],
                reward: "-1 for every step, 0 for the one that reaches the line",
                termination: "the free end is more than 1 m above the fixed joint: \
                              -cos(angle 1) - cos(angle 1 + angle 2) > 1",
                source: "Sutton (1996), equations of Sutton and Barto's book; \
                         constants of Gymnasium Acrobot-v1",
            },
        }
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.state = AcrobotState::from_array(std::array::from_fn(|_| rng.range(-START, START)));
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let torque = action.discrete().expect(OF_THE_SPACE) as f64 - 1.0;
        let next = self.state.integrate(torque, SECONDS_PER_STEP);
        self.state = AcrobotState {
            angle_1: without_whole_turns(next.angle_1),
            angle_2: without_whole_turns(next.angle_2),
            velocity_1: next.velocity_1.clamp(-MAX_VELOCITY_1, MAX_VELOCITY_1),
            velocity_2: next.velocity_2.clamp(-MAX_VELOCITY_2, MAX_VELOCITY_2),
        };
        let [_, free_end] = self.state.places();
        let terminated = free_end.1 > LINE;
        Outcome { reward: if terminated { 0.0 } else { -1.0 }, terminated }
    }

    fn observe(&self, obs: &mut [f32]) {
        let (sin_1, cos_1) = self.state.angle_1.sin_cos();
        let (sin_2, cos_2) = self.state.angle_2.sin_cos();
        let AcrobotState { velocity_1, velocity_2, .. } = self.state;
        let values = [cos_1, sin_1, cos_2, sin_2, velocity_1, velocity_2];
        obs.copy_from_slice(&values.map(|value| value as f32));
    }

    fn render(&self) -> String {
        let mut canvas = Canvas::new(21, 11, (-2.1, 2.1), (-2.1, 2.1));
        let [elbow, free_end] = self.state.places();
        canvas.line((-2.1, LINE), (2.1, LINE), '-');
        canvas.line((0.0, 0.0), elbow, '.');
        canvas.line(elbow, free_end, '.');
        canvas.point(0.0, 0.0, '+');
        canvas.point(elbow.0, elbow.1, 'o');
        canvas.point(free_end.0, free_end.1, 'O');
        format!("{canvas}free end at {:+.2} m, the line at {LINE:+.2} m\n", free_end.1)
    }
}

impl Persist for Acrobot {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f64(name, self.state.to_array());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let values = from.f64s(name, 4)?;
        self.state = AcrobotState::from_array([values[0], values[1], values[2], values[3]]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_from(state: AcrobotState, choice: usize) -> (AcrobotState, Outcome) {
        let mut env = Acrobot::default();
        env.set_state(state);
        let outcome = env.step(&Action::Discrete(choice), &mut Stream::from_seed(0));
        (env.state(), outcome)
    }

    #[test]
    fn without_torque_hanging_links_stay_and_moving_links_keep_their_energy() {
        assert_eq!(step_from(AcrobotState::default(), 1).0, AcrobotState::default());

        // Kinetic energy of both links about their centres of mass, and potential energy.
        let energy = |state: AcrobotState| {
            let AcrobotState { angle_1, angle_2, velocity_1, velocity_2 } = state;
            let turn_2 = velocity_1 + velocity_2;
            let speed_2_squared = velocity_1 * velocity_1
                + CENTRE * CENTRE * turn_2 * turn_2
                + 2.0 * CENTRE * velocity_1 * turn_2 * angle_2.cos();
            let kinetic = 0.5 * (CENTRE * CENTRE + INERTIA) * velocity_1 * velocity_1
                + 0.5 * (speed_2_squared + INERTIA * turn_2 * turn_2);
            let heights = -CENTRE * angle_1.cos()
                - (LENGTH * angle_1.cos() + CENTRE * (angle_1 + angle_2).cos());
            kinetic + GRAVITY * heights
        };
        let mut state =
            AcrobotState { angle_1: 0.8, angle_2: -0.5, velocity_1: 0.4, velocity_2: 0.6 };
        let before = energy(state);
        for _ in 0..10_000 {
            state = state.integrate(0.0, 1e-3);
        }
        assert!((energy(state) - before).abs() < 1e-6, "{before} became {}", energy(state));
    }

    #[test]
    fn the_mirrored_torque_from_the_mirrored_state_gives_the_mirrored_result() {
        let state = AcrobotState { angle_1: 0.3, angle_2: -1.1, velocity_1: 2.0, velocity_2: -3.0 };
        let mirror = |state: AcrobotState| {
            AcrobotState::from_array(state.to_array().map(std::ops::Neg::neg))
        };
        assert_eq!(step_from(mirror(state), 0).0, mirror(step_from(state, 2).0));
    }

    #[test]
    fn angles_keep_inside_a_turn_and_velocities_inside_their_limits() {
        let fast =
            AcrobotState { angle_1: 3.0, angle_2: -3.0, velocity_1: 12.5, velocity_2: -28.0 };
        let (after, _) = step_from(fast, 0);
        assert!(after.angle_1.abs() <= PI && after.angle_2.abs() <= PI, "{after:?}");
        assert!(after.velocity_1.abs() <= MAX_VELOCITY_1, "{after:?}");
        assert!(after.velocity_2.abs() <= MAX_VELOCITY_2, "{after:?}");
        assert_eq!(without_whole_turns(PI), PI);
        assert!((without_whole_turns(-5.0 * PI + 0.1) - (-PI + 0.1)).abs() < 1e-12);
    }

    #[test]
    fn the_episode_ends_when_the_free_end_is_above_the_line() {
        let upright = AcrobotState { angle_1: PI, ..AcrobotState::default() };
        assert_eq!(step_from(upright, 1).1, Outcome { reward: 0.0, terminated: true });
        let hanging = AcrobotState::default();
        assert_eq!(step_from(hanging, 1).1, Outcome { reward: -1.0, terminated: false });
    }

    #[test]
    fn the_picture_shows_the_free_end_below_the_line_while_hanging() {
        let picture = Acrobot::default().render();
        assert!(picture.find('-').unwrap() < picture.find('O').unwrap(), "{picture}");
    }
}
