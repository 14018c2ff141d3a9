//! Small settings for the tests: agents that learn within a second.

use homeostat_nn::Activation;
use homeostat_rl::{
    AlgorithmConfig, DdpgConfig, DqnConfig, NoiseConfig, PpoConfig, QLearningConfig,
    ReinforceConfig, Schedule,
};

pub(crate) fn ppo() -> PpoConfig {
    PpoConfig {
        num_envs: 4,
        steps_per_update: 32,
        epochs: 5,
        minibatch: 32,
        hidden: vec![32],
        actor_learning_rate: 3e-3,
        critic_learning_rate: 1e-2,
        gamma: 0.9,
        entropy_coefficient: 0.01,
        ..PpoConfig::default()
    }
}

pub(crate) fn dqn() -> DqnConfig {
    DqnConfig {
        replay_capacity: 1_000,
        learning_starts: 100,
        train_every: 1,
        minibatch: 32,
        target_update_every: 20,
        hidden: vec![32],
        learning_rate: 1e-2,
        gamma: 0.9,
        epsilon_decay_steps: 1_000,
        ..DqnConfig::default()
    }
}

pub(crate) fn ddpg() -> DdpgConfig {
    DdpgConfig {
        replay_capacity: 2_000,
        learning_starts: 200,
        minibatch: 32,
        hidden: vec![32],
        activation: Activation::Relu,
        actor_learning_rate: 1e-3,
        critic_learning_rate: 1e-2,
        gamma: 0.9,
        soft_update: 0.05,
        noise: NoiseConfig::Gaussian { sigma: 0.2 },
        ..DdpgConfig::default()
    }
}

pub(crate) fn q_learning() -> QLearningConfig {
    QLearningConfig { gamma: 0.9, epsilon_decay_steps: 1_000, ..QLearningConfig::default() }
}

pub(crate) fn reinforce() -> ReinforceConfig {
    ReinforceConfig {
        episodes_per_update: 1,
        baseline_steps: 2,
        hidden: vec![32],
        policy_learning_rate: 1e-2,
        baseline_learning_rate: 1e-2,
        gamma: 0.9,
        ..ReinforceConfig::default()
    }
}

/// Every algorithm, with every kind of action that it can take, in an environment for it. They
/// update within a few rounds, at different times, and use all that has a state:
/// several environments, schedules, noise that remembers.
pub(crate) fn of_every_kind() -> Vec<(&'static str, AlgorithmConfig)> {
    let ppo = PpoConfig {
        num_envs: 2,
        steps_per_update: 9,
        minibatch: 5,
        schedule: Schedule::Linear,
        ..ppo()
    };
    let dqn = DqnConfig {
        num_envs: 2,
        replay_capacity: 50,
        learning_starts: 10,
        train_every: 3,
        target_update_every: 4,
        schedule: Schedule::Linear,
        epsilon_decay_steps: 100,
        ..dqn()
    };
    let ddpg = DdpgConfig {
        num_envs: 2,
        replay_capacity: 50,
        learning_starts: 10,
        train_every: 3,
        noise: NoiseConfig::OrnsteinUhlenbeck { sigma: 0.2, theta: 0.15 },
        exploration_decay: 1e-3,
        ..ddpg()
    };
    let q_learning = QLearningConfig { num_envs: 2, epsilon_decay_steps: 100, ..q_learning() };
    let reinforce = ReinforceConfig { episodes_per_update: 2, ..reinforce() };
    vec![
        ("classic/cartpole-v1", AlgorithmConfig::Ppo(ppo.clone())),
        ("toy/identity-multi-v1", AlgorithmConfig::Ppo(ppo.clone())),
        ("classic/pendulum-v1", AlgorithmConfig::Ppo(ppo)),
        ("classic/cartpole-v1", AlgorithmConfig::Dqn(dqn)),
        ("classic/pendulum-v1", AlgorithmConfig::Ddpg(ddpg)),
        ("toy/grid-world-v1", AlgorithmConfig::QLearning(q_learning)),
        ("classic/cartpole-v1", AlgorithmConfig::Reinforce(reinforce.clone())),
        ("toy/identity-box-v1", AlgorithmConfig::Reinforce(reinforce)),
    ]
}
