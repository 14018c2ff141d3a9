//! The classic environments against the originals: the same spaces and limits, and from
//! the same state the same consequences of the same actions.
//!
//! `./test` sets `HOMEOSTAT_TEST_PYTHON` to a Python with Gymnasium 1.4.0.

use std::io::Write;
use std::process::{Command, Stdio};

use homeostat_core::Stream;
use homeostat_env::envs::acrobot::{Acrobot, AcrobotState};
use homeostat_env::envs::cartpole::{CartPole, CartPoleState};
use homeostat_env::envs::mountain_car::{MountainCar, MountainCarState};
use homeostat_env::envs::pendulum::{Pendulum, PendulumState};
use homeostat_env::{Action, Dynamics, Space};
use homeostat_test_skip::skip;
use serde_json::{Value, json};

const EPISODES: usize = 150;
const RESETS: u64 = 400;
const TOLERANCE: f64 = 1e-5;

/// A classic environment with its state as plain numbers, in Gymnasium's order.
trait Classic: Dynamics + Default {
    fn numbers(&self) -> Vec<f64>;
    fn set_numbers(&mut self, numbers: &[f64]);
}

/// What to compare, and from where.
struct Comparison {
    /// Gymnasium's name.
    id: &'static str,
    /// Initial states lie in these ranges, often at their ends.
    ranges: &'static [(f64, f64)],
    /// Steps in one episode: few where small differences grow fast.
    steps: usize,
    /// Whether the task ends in some of the episodes.
    ends: bool,
}

impl Classic for CartPole {
    fn numbers(&self) -> Vec<f64> {
        let state = self.state();
        vec![state.position, state.velocity, state.angle, state.angular_velocity]
    }

    fn set_numbers(&mut self, numbers: &[f64]) {
        self.set_state(CartPoleState {
            position: numbers[0],
            velocity: numbers[1],
            angle: numbers[2],
            angular_velocity: numbers[3],
        });
    }
}

impl Classic for Pendulum {
    fn numbers(&self) -> Vec<f64> {
        vec![self.state().angle, self.state().angular_velocity]
    }

    fn set_numbers(&mut self, numbers: &[f64]) {
        self.set_state(PendulumState { angle: numbers[0], angular_velocity: numbers[1] });
    }
}

impl Classic for Acrobot {
    fn numbers(&self) -> Vec<f64> {
        let state = self.state();
        vec![state.angle_1, state.angle_2, state.velocity_1, state.velocity_2]
    }

    fn set_numbers(&mut self, numbers: &[f64]) {
        self.set_state(AcrobotState {
            angle_1: numbers[0],
            angle_2: numbers[1],
            velocity_1: numbers[2],
            velocity_2: numbers[3],
        });
    }
}

impl Classic for MountainCar {
    fn numbers(&self) -> Vec<f64> {
        vec![self.state().position, self.state().velocity]
    }

    fn set_numbers(&mut self, numbers: &[f64]) {
        self.set_state(MountainCarState { position: numbers[0], velocity: numbers[1] });
    }
}

#[test]
fn cartpole_is_gymnasiums() {
    let limit = 12.0 * 2.0 * std::f64::consts::PI / 360.0;
    assert_eq!(limit, 0.209_439_510_239_319_53, "the range below ends at the limit");
    compare::<CartPole>(&Comparison {
        id: "CartPole-v1",
        ranges: &[
            (-2.4, 2.4),
            (-3.0, 3.0),
            (-0.209_439_510_239_319_53, 0.209_439_510_239_319_53),
            (-3.0, 3.0),
        ],
        steps: 200,
        ends: true,
    });
}

#[test]
fn pendulum_is_gymnasiums() {
    // Beyond a turn too: the reward must not count whole turns.
    compare::<Pendulum>(&Comparison {
        id: "Pendulum-v1",
        ranges: &[(-10.0, 10.0), (-8.0, 8.0)],
        steps: 100,
        ends: false,
    });
}

#[test]
fn acrobot_is_gymnasiums() {
    use std::f64::consts::PI;
    // A double pendulum is chaotic: 40 fast steps make 1e-7 of the last bit.
    compare::<Acrobot>(&Comparison {
        id: "Acrobot-v1",
        ranges: &[(-PI, PI), (-PI, PI), (-4.0 * PI, 4.0 * PI), (-9.0 * PI, 9.0 * PI)],
        steps: 30,
        ends: true,
    });
    compare::<Acrobot>(&Comparison {
        id: "Acrobot-v1",
        ranges: &[(-0.1, 0.1); 4],
        steps: 60,
        ends: false,
    });
}

#[test]
fn mountain_car_is_gymnasiums() {
    compare::<MountainCar>(&Comparison {
        id: "MountainCar-v0",
        ranges: &[(-1.2, 0.6), (-0.07, 0.07)],
        steps: 200,
        ends: true,
    });
}

fn compare<W: Classic>(comparison: &Comparison) {
    let id = comparison.id;
    let mut rng = Stream::from_seed(20);
    let space = W::default().spec().action;
    let episodes: Vec<(Vec<f64>, Vec<Action>)> = (0..EPISODES)
        .map(|_| {
            let state = comparison.ranges.iter().map(|range| draw(*range, &mut rng)).collect();
            (state, (0..comparison.steps).map(|_| space.sample(&mut rng)).collect())
        })
        .collect();
    let to_json = |(state, actions): &(Vec<f64>, Vec<Action>)| {
        let actions: Vec<_> = actions.iter().map(action_to_json).collect();
        json!({ "state": state, "actions": actions })
    };
    let request = json!({
        "id": id,
        "resets": RESETS,
        "episodes": episodes.iter().map(to_json).collect::<Vec<_>>(),
    });
    let Some(answer) = ask_gymnasium(&request) else { return };

    compare_spec::<W>(&answer);
    compare_resets::<W>(id, &answer);
    let mut ended = 0;
    for (index, (state, actions)) in episodes.iter().enumerate() {
        let mut dynamics = W::default();
        dynamics.set_numbers(state);
        let steps = answer["episodes"][index].as_array().expect("a list of steps");
        for (at, (step, action)) in steps.iter().zip(actions).enumerate() {
            let outcome = dynamics.step(action, &mut rng);
            let mut obs = vec![0.0; dynamics.spec().observation.len()];
            dynamics.observe(&mut obs);
            let obs: Vec<_> = obs.into_iter().map(f64::from).collect();
            let place = format!("{id}, from {state:?}, step {at}");
            assert_near(&format!("{place}: observation"), &obs, &numbers(&step["obs"]));
            assert_near(&format!("{place}: state"), &dynamics.numbers(), &numbers(&step["state"]));
            assert_near(&format!("{place}: reward"), &[outcome.reward], &[number(&step["reward"])]);
            assert_eq!(step["terminated"], outcome.terminated, "{place}: terminated");
            ended += usize::from(outcome.terminated);
        }
        // Gymnasium stops at the end of the task only, and so did the loop above.
        let last = steps.last().expect("at least one step");
        assert!(steps.len() == actions.len() || last["terminated"] == true, "{id}: cut short");
    }
    assert_eq!(ended > 0, comparison.ends, "{id}: {ended} ends of the task were compared");
}

fn draw((low, high): (f64, f64), rng: &mut Stream) -> f64 {
    match rng.below(8) {
        0 => low,
        1 => high,
        _ => rng.range(low, high),
    }
}

fn compare_spec<W: Classic>(answer: &Value) {
    let spec = W::default().spec();
    assert_eq!(
        answer["max_episode_steps"],
        spec.time_limit.expect("classic environments have one")
    );
    for (ours, theirs) in [(spec.observation, "observation"), (spec.action, "action")] {
        let theirs = &answer[theirs];
        match ours {
            Space::Discrete(n) => assert_eq!(theirs["n"], n),
            Space::Box { low, high } => {
                assert_eq!(low, ends(&theirs["low"]));
                assert_eq!(high, ends(&theirs["high"]));
            }
            Space::MultiDiscrete(_) => panic!("no classic environment has such a space"),
        }
    }
}

/// Initial states of both fill the same ranges, up to chance.
fn compare_resets<W: Classic>(id: &str, answer: &Value) {
    let mut rng = Stream::from_seed(21);
    let mut dynamics = W::default();
    let states: Vec<_> = (0..RESETS)
        .map(|_| {
            dynamics.reset(&mut rng);
            dynamics.numbers()
        })
        .collect();
    let (lows, highs) = (numbers(&answer["resets"]["low"]), numbers(&answer["resets"]["high"]));
    for (i, (low, high)) in lows.iter().zip(&highs).enumerate() {
        let column = || states.iter().map(|state| state[i]);
        let near = |ours: f64, theirs: f64| (ours - theirs).abs() <= 0.03 * (high - low);
        let (least, most) = (column().fold(f64::MAX, f64::min), column().fold(f64::MIN, f64::max));
        assert!(
            near(least, *low) && near(most, *high),
            "{id}: number {i} of first states is in {least}..={most}, theirs in {low}..={high}"
        );
    }
}

fn assert_near(what: &str, ours: &[f64], theirs: &[f64]) {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= TOLERANCE;
    let same = ours.len() == theirs.len() && ours.iter().zip(theirs).all(near);
    assert!(same, "{what}: ours {ours:?}, theirs {theirs:?}");
}

fn action_to_json(action: &Action) -> Value {
    match action {
        Action::Discrete(choice) => json!(choice),
        Action::MultiDiscrete(choices) => json!(choices),
        Action::Continuous(values) => json!(values),
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(number).collect()
}

/// Ends of a box, written as text because they may be infinite.
fn ends(value: &Value) -> Vec<f32> {
    let end = |value: &Value| value.as_str().expect("text").parse().expect("a number or inf");
    value.as_array().expect("a list").iter().map(end).collect()
}

/// The peer's answer, or nothing if no Python was named.
fn ask_gymnasium(request: &Value) -> Option<Value> {
    #[expect(clippy::disallowed_methods, reason = "which Python to test against is no config")]
    let python = std::env::var("HOMEOSTAT_TEST_PYTHON");
    let Ok(python) = python else {
        skip("not compared with Gymnasium; run ./test, which sets HOMEOSTAT_TEST_PYTHON");
        return None;
    };
    let mut child = Command::new(&python)
        .arg("tests/it/gymnasium_peer.py")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("HOMEOSTAT_TEST_PYTHON={python} does not start: {error}"));
    let mut stdin = child.stdin.take().expect("stdin is piped");
    stdin.write_all(request.to_string().as_bytes()).expect("the peer reads its request");
    drop(stdin);
    let output = child.wait_with_output().expect("the peer can be waited for");
    assert!(output.status.success(), "the peer failed: {}", output.status);
    Some(serde_json::from_slice(&output.stdout).expect("the peer answers in JSON"))
}
