//! An episode that somebody stopped is worth what would have followed; one that
//! ended by itself is worth what it paid. Every algorithm tells them apart.

use homeostat_core::{Persist, Result, Snapshot, Stream};
use homeostat_env::{Action, Dynamics, Env, EnvSpec, Episode, Outcome, Space};
use homeostat_rl::{
    AlgorithmConfig, DdpgConfig, DqnConfig, PpoConfig, QLearningConfig, ReinforceConfig,
};

use crate::agents;
use crate::play::{Play, spec, workspace};

const GAMMA: f32 = 0.9;
const HOURS: usize = 5;

/// Forgetting what lies beyond the limit would be off by 60 to 90 percent.
const TOLERANCE: f32 = 0.03;

/// Why an episode is over when the clock has come round.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// The time limit was reached; the clock itself would run on for ever.
    Truncated,
    /// The clock has run down.
    Terminated,
    /// It has run down in the very step that reached the time limit.
    Both,
}

/// Shows the hour and pays one an hour, whatever is done.
#[derive(Debug, Clone)]
struct Clock {
    hour: usize,
    end: End,
    action: Space,
}

impl Dynamics for Clock {
    fn spec(&self) -> EnvSpec {
        let time_limit = (self.end != End::Terminated).then_some(HOURS as u32);
        EnvSpec { time_limit, ..spec(Space::Discrete(HOURS), self.action.clone()) }
    }

    fn reset(&mut self, _: &mut Stream) {
        self.hour = 0;
    }

    fn step(&mut self, _: &Action, _: &mut Stream) -> Outcome {
        self.hour = (self.hour + 1) % HOURS;
        Outcome { reward: 1.0, terminated: self.hour == 0 && self.end != End::Truncated }
    }

    fn observe(&self, obs: &mut [f32]) {
        obs[0] = self.hour as f32;
    }

    fn render(&self) -> String {
        format!("{} o'clock\n", self.hour)
    }
}

impl Persist for Clock {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(name, [self.hour as u64]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        self.hour = from.u64s(name, 1)?[0] as usize;
        Ok(())
    }
}

/// The discounted sum of the rewards that follow this hour.
fn worth(hour: usize, end: End) -> f32 {
    let for_ever = 1.0 / (1.0 - GAMMA);
    match end {
        End::Truncated => for_ever,
        End::Terminated | End::Both => for_ever * (1.0 - GAMMA.powi((HOURS - hour) as i32)),
    }
}

fn check(config: &AlgorithmConfig, action: Space, rounds: usize) {
    let mut workspace = workspace();
    for end in [End::Truncated, End::Terminated, End::Both] {
        let make = || -> homeostat_env::Result<Box<dyn Env>> {
            Ok(Box::new(Episode::new(Clock { hour: 0, end, action: action.clone() })))
        };
        let mut play = Play::new(make, config, 0, 1);
        play.rounds(rounds, &mut workspace);
        for hour in 0..HOURS {
            let value = play.learner.value(&[hour as f32], &mut workspace);
            let expect = worth(hour, end);
            assert!(
                (value / expect - 1.0).abs() < TOLERANCE,
                "{end:?}: hour {hour} is worth {value}, expected {expect}"
            );
        }
    }
}

#[test]
fn ppo_values_what_was_cut_off() {
    let config = PpoConfig { gamma: GAMMA, reward_scale: 0.5, ..agents::ppo() };
    check(&AlgorithmConfig::Ppo(config), Space::Discrete(2), 2_000);
}

#[test]
fn dqn_values_what_was_cut_off() {
    // The network settles between two targets; else their errors run round the clock.
    let config =
        DqnConfig { gamma: GAMMA, learning_rate: 1e-3, target_update_every: 100, ..agents::dqn() };
    check(&AlgorithmConfig::Dqn(config), Space::Discrete(2), 20_000);
}

#[test]
fn ddpg_values_what_was_cut_off() {
    let config = DdpgConfig { gamma: GAMMA, reward_scale: 0.5, ..agents::ddpg() };
    check(&AlgorithmConfig::Ddpg(config), Space::uniform_box(1, -2.0, 2.0), 3_000);
}

#[test]
fn q_learning_values_what_was_cut_off() {
    let config = QLearningConfig { gamma: GAMMA, ..agents::q_learning() };
    check(&AlgorithmConfig::QLearning(config), Space::Discrete(2), 10_000);
}

#[test]
fn reinforce_values_what_was_cut_off() {
    let config = ReinforceConfig { gamma: GAMMA, reward_scale: 0.5, ..agents::reinforce() };
    check(&AlgorithmConfig::Reinforce(config), Space::Discrete(2), 10_000);
}
