//! Every algorithm learns to repeat what it sees, in every kind of space it suits.
//! The settings were tried on twenty seeds each, and none failed.

use homeostat_env::make;
use homeostat_nn::Kernel;
use homeostat_rl::{AdvantageNormalisation, AlgorithmConfig, PpoConfig, for_each_agent};

use crate::agents;
use crate::play::{Play, greedy_return, workspace};

const DISCRETE: &str = "toy/identity-v1";
const MULTI_DISCRETE: &str = "toy/identity-multi-v1";
const BOX: &str = "toy/identity-box-v1";

/// The return of an episode of 100 steps for an agent that repeats every choice, and for one that
/// answers on average within a tenth of every point. Guessing brings 25 and -67.
const ALL_RIGHT: f64 = 100.0;
const CLOSE: f64 = -1.0;

fn check(env_id: &str, config: &AlgorithmConfig, rounds: usize, threshold: f64) {
    let mut workspace = workspace();
    for seed in [1, 2, 3] {
        let mut play = Play::new(|| make(env_id), config, 0, seed);
        let before = greedy_return(&play.learner.policy(), env_id, &mut workspace);
        assert!(before < threshold, "seed {seed} gets {before} untaught: nothing is shown");
        play.rounds(rounds, &mut workspace);
        let after = greedy_return(&play.learner.policy(), env_id, &mut workspace);
        assert!(after >= threshold, "seed {seed} gets {after}, expected {threshold}");
    }
}

#[test]
fn ppo_repeats_a_choice() {
    check(DISCRETE, &AlgorithmConfig::Ppo(agents::ppo()), 2_000, ALL_RIGHT);
}

#[test]
fn ppo_repeats_several_choices() {
    check(MULTI_DISCRETE, &AlgorithmConfig::Ppo(agents::ppo()), 3_000, ALL_RIGHT);
}

#[test]
fn ppo_repeats_a_point() {
    check(BOX, &AlgorithmConfig::Ppo(agents::ppo()), 6_000, CLOSE);
}

#[test]
fn dqn_repeats_a_choice() {
    check(DISCRETE, &AlgorithmConfig::Dqn(agents::dqn()), 1_500, ALL_RIGHT);
}

#[test]
fn q_learning_repeats_a_choice() {
    check(DISCRETE, &AlgorithmConfig::QLearning(agents::q_learning()), 1_500, ALL_RIGHT);
}

#[test]
fn ddpg_repeats_a_point() {
    check(BOX, &AlgorithmConfig::Ddpg(agents::ddpg()), 3_000, CLOSE);
}

#[test]
fn reinforce_repeats_a_choice() {
    check(DISCRETE, &AlgorithmConfig::Reinforce(agents::reinforce()), 6_000, ALL_RIGHT);
}

#[test]
fn reinforce_repeats_several_choices() {
    check(MULTI_DISCRETE, &AlgorithmConfig::Reinforce(agents::reinforce()), 10_000, ALL_RIGHT);
}

#[test]
fn reinforce_repeats_a_point() {
    check(BOX, &AlgorithmConfig::Reinforce(agents::reinforce()), 40_000, CLOSE);
}

#[test]
fn every_agent_of_a_fleet_learns() {
    let config = AlgorithmConfig::Ppo(PpoConfig {
        normalise_advantages: AdvantageNormalisation::Batch,
        ..agents::ppo()
    });
    let mut fleet: Vec<_> =
        (0..8).map(|agent| Play::new(|| make(DISCRETE), &config, agent, 1)).collect();
    for_each_agent(Kernel::best(), &mut fleet, |play, workspace| play.rounds(2_000, workspace));
    for (agent, play) in fleet.iter().enumerate() {
        let reached = greedy_return(&play.learner.policy(), DISCRETE, &mut workspace());
        assert!(reached >= ALL_RIGHT, "agent {agent} gets {reached}");
    }
}
