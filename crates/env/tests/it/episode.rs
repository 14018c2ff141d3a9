//! What `Episode` adds to bare dynamics.

use homeostat_core::{Persist, Result, Snapshot, Stream};
use homeostat_env::envs::grid_world::GridWorld;
use homeostat_env::{Action, Card, Dynamics, Env, EnvSpec, Episode, Error, Field, Outcome, Space};

/// Counts its steps and ends its task after `task` of them; the limit is 3.
struct Countdown {
    task: u64,
    steps: u64,
}

impl Dynamics for Countdown {
    fn spec(&self) -> EnvSpec {
        EnvSpec {
            control: None,
            id: "test/countdown-v1".parse().expect("well-formed"),
            observation: Space::Discrete(4),
            action: Space::Discrete(1),
            time_limit: Some(3),
            card: Card {
                summary: "Counts steps.",
                observation: vec![Field::new("steps", "0 to 3")],
                action: vec![Field::new("0", "wait")],
                reward: "0",
                termination: "after the task",
                source: "this test",
            },
        }
    }

    fn reset(&mut self, _rng: &mut Stream) {
        self.steps = 0;
    }

    fn step(&mut self, _action: &Action, _rng: &mut Stream) -> Outcome {
        self.steps += 1;
        Outcome { reward: 0.0, terminated: self.steps == self.task }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs[0] = self.steps as f32;
    }

    fn render(&self) -> String {
        self.steps.to_string()
    }
}

impl Persist for Countdown {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(name, [self.steps]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        self.steps = from.u64s(name, 1)?[0];
        Ok(())
    }
}

#[test]
fn the_task_terminates_and_the_limit_truncates() {
    // Steps to the end, terminated, truncated.
    let check = |task: u64, expect: (u32, bool, bool)| {
        let mut env = Episode::new(Countdown { task, steps: 0 });
        env.reset(Some(0)).unwrap();
        for steps in 1.. {
            let step = env.step(&Action::Discrete(0)).unwrap();
            if step.done() {
                assert_eq!((steps, step.terminated, step.truncated), expect);
                break;
            }
        }
    };
    check(2, (2, true, false));
    check(9, (3, false, true));
    // Both on the same step, as Gymnasium's time limit reports it.
    check(3, (3, true, true));
}

#[test]
fn misuse_is_refused_in_words_and_harms_nothing() {
    let mut env = Episode::new(GridWorld::default());
    let right = Action::Discrete(1);
    let error = env.step(&right).unwrap_err();
    assert_eq!(error, Error::StepBeforeReset { env: "toy/grid-world-v1".to_owned() });
    env.reset(Some(0)).unwrap();
    let error = env.step(&Action::Discrete(4)).unwrap_err().to_string();
    assert_eq!(error, "action 4 is outside the action space Discrete(4) of toy/grid-world-v1");
    assert_eq!(env.step(&right).unwrap().obs, [1.0]);
}
