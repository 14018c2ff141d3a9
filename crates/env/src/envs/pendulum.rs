//! A pendulum with a motor too weak to lift it in one go: swing it up and hold it.
//! The constants are those of Gymnasium's Pendulum-v1.

use std::f64::consts::PI;

use homeostat_core::{Persist, Result, Snapshot, Stream};

use super::OF_THE_SPACE;
use super::canvas::Canvas;
use crate::{Action, Card, Dynamics, EnvSpec, Field, Outcome, Space};

const GRAVITY: f64 = 10.0;
const MASS: f64 = 1.0;
const LENGTH: f64 = 1.0;
const MAX_TORQUE: f64 = 2.0;
const MAX_SPEED: f64 = 8.0;
const SECONDS_PER_STEP: f64 = 0.05;

/// The pendulum.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pendulum {
    state: PendulumState,
}

/// Angle and angular velocity.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PendulumState {
    /// In radians, counter-clockwise; zero is upright. It counts whole turns too.
    pub angle: f64,
    /// In radians per second.
    pub angular_velocity: f64,
}

impl Pendulum {
    /// The present state.
    pub fn state(&self) -> PendulumState {
        self.state
    }

    /// Sets the state.
    pub fn set_state(&mut self, state: PendulumState) {
        self.state = state;
    }
}

/// The same direction as an angle in [-pi, pi).
fn without_whole_turns(angle: f64) -> f64 {
    (angle + PI).rem_euclid(2.0 * PI) - PI
}

impl Dynamics for Pendulum {
    fn spec(&self) -> EnvSpec {
        let high = vec![1.0, 1.0, MAX_SPEED as f32];
        EnvSpec {
            control: None,
            id: "classic/pendulum-v1".parse().expect("the id is well-formed"),
            observation: Space::Box { low: high.iter().map(|end| -end).collect(), high },
            action: Space::uniform_box(1, -MAX_TORQUE as f32, MAX_TORQUE as f32),
            time_limit: Some(200),
            card: Card {
                summary: "Swing a pendulum up and hold it there with a weak motor.",
                observation: vec![
                    Field::new("cos(angle)", "-1 to 1; the angle is 0 when upright"),
                    Field::new("sin(angle)", "-1 to 1; positive is counter-clockwise"),
                    Field::new(
                        "angular velocity",
                        "rad/s, -8 to 8; starts within 1, from any angle",
                    ),
                ],
                action: vec![Field::new("torque", "N m, -2 to 2, counter-clockwise, for 0.05 s")],
                reward: "-(angle^2 + 0.1 velocity^2 + 0.001 torque^2) of the state before the \
                         step, the angle in -pi to pi: between -16.27 and 0",
                termination: "never",
                source: "Gymnasium Pendulum-v1, with gravity 10 m/s^2",
            },
        }
    }

    fn reset(&mut self, rng: &mut Stream) {
        self.state =
            PendulumState { angle: rng.range(-PI, PI), angular_velocity: rng.range(-1.0, 1.0) };
    }

    fn step(&mut self, action: &Action, _rng: &mut Stream) -> Outcome {
        let torque = action.continuous().expect(OF_THE_SPACE)[0];
        let torque = torque.clamp(-MAX_TORQUE as f32, MAX_TORQUE as f32);
        let PendulumState { angle, angular_velocity } = self.state;
        let direction = without_whole_turns(angle);
        let effort = f64::from(torque * torque);
        let cost =
            direction * direction + 0.1 * angular_velocity * angular_velocity + 0.001 * effort;
        // A rod turning about its end has the moment of inertia m l^2 / 3. The torque's
        // part is rounded to f32, as NumPy does: the swing soon makes that visible.
        let lift = f64::from((3.0 / (MASS * LENGTH * LENGTH)) as f32 * torque);
        let acceleration = 3.0 * GRAVITY / (2.0 * LENGTH) * angle.sin() + lift;
        let angular_velocity =
            (angular_velocity + acceleration * SECONDS_PER_STEP).clamp(-MAX_SPEED, MAX_SPEED);
        // Semi-implicit Euler: the angle already moves with the new velocity.
        let angle = angle + angular_velocity * SECONDS_PER_STEP;
        self.state = PendulumState { angle, angular_velocity };
        Outcome { reward: -cost, terminated: false }
    }

    fn observe(&self, obs: &mut [f32]) {
        let (sin, cos) = self.state.angle.sin_cos();
        obs.copy_from_slice(&[cos as f32, sin as f32, self.state.angular_velocity as f32]);
    }

    fn render(&self) -> String {
        let PendulumState { angle, angular_velocity } = self.state;
        let mut canvas = Canvas::new(17, 9, (-1.1, 1.1), (-1.1, 1.1));
        let tip = (-angle.sin(), angle.cos());
        canvas.line((0.0, 0.0), tip, '.');
        canvas.point(0.0, 0.0, '+');
        canvas.point(tip.0, tip.1, 'O');
        let degrees = 180.0 / PI;
        format!(
            "{canvas}angle {:+.1} deg {:+.1} deg/s\n",
            without_whole_turns(angle) * degrees,
            angular_velocity * degrees,
        )
    }
}

impl Persist for Pendulum {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f64(name, [self.state.angle, self.state.angular_velocity]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        let values = from.f64s(name, 2)?;
        self.state = PendulumState { angle: values[0], angular_velocity: values[1] };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_from(angle: f64, angular_velocity: f64, torque: f32) -> (PendulumState, f64) {
        let mut env = Pendulum::default();
        env.set_state(PendulumState { angle, angular_velocity });
        let action = Action::Continuous(vec![torque]);
        let outcome = env.step(&action, &mut Stream::from_seed(0));
        (env.state(), outcome.reward)
    }

    #[test]
    fn upright_and_still_is_the_only_free_place() {
        assert_eq!(step_from(0.0, 0.0, 0.0), (PendulumState::default(), 0.0));
        let worst = step_from(-PI, 8.0, 2.0).1;
        assert!((worst + 16.273_604_4).abs() < 1e-6, "{worst}");
    }

    #[test]
    fn whole_turns_cost_nothing() {
        let check = |turns: f64| {
            let (here, there) = (step_from(0.5, 0.0, 0.0).1, step_from(0.5 + turns, 0.0, 0.0).1);
            assert!((here - there).abs() < 1e-9, "{here} {there}");
        };
        check(2.0 * PI);
        check(-6.0 * PI);
    }

    #[test]
    fn the_motor_cannot_lift_the_pendulum_in_one_go() {
        let mut env = Pendulum::default();
        env.set_state(PendulumState { angle: PI, angular_velocity: 0.0 });
        let full = Action::Continuous(vec![MAX_TORQUE as f32]);
        for _ in 0..200 {
            env.step(&full, &mut Stream::from_seed(0));
            assert!(env.state().angle.cos() < 0.0);
        }
    }

    #[test]
    fn the_speed_never_passes_its_limit() {
        let (after, _) = step_from(PI / 2.0, 7.99, 2.0);
        assert_eq!(after.angular_velocity, MAX_SPEED);
    }

    #[test]
    fn the_picture_shows_the_bob_above_the_pivot_when_upright() {
        let picture = Pendulum::default().render();
        assert!(picture.find('O').unwrap() < picture.find('+').unwrap(), "{picture}");
    }
}
