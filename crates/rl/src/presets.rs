//! Settings by name: those of the papers, number by number, and those that solve
//! the classic tasks.
//!
//! "The dissertation" is H. Qiu, Cloud Systems Management with Efficient and Robust
//! Online Learning (2024); "the EuroMLSys paper" is H. Qiu et al., Reinforcement Learning
//! for Resource Management in Multi-tenant Serverless Platforms (2022).

use homeostat_nn::Activation;

use crate::{
    AdvantageNormalisation, Algorithm, AlgorithmConfig, DdpgConfig, DqnConfig, NoiseConfig,
    PpoConfig, QLearningConfig, ReinforceConfig, Schedule,
};

/// A named set of settings.
#[derive(Debug, Clone)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// Where the numbers come from.
    pub source: &'static str,
    /// The task it was made for, which then takes it by default.
    pub task: Option<&'static str>,
    /// The settings.
    pub config: AlgorithmConfig,
}

/// Every preset, ordered by name.
pub fn all() -> Vec<Preset> {
    const CARTPOLE: Option<&str> = Some("classic/cartpole-v1");
    let preset = |name, config, task, source| Preset { name, source, task, config };
    vec![
        preset(
            "aurora",
            AlgorithmConfig::Ppo(aurora()),
            None,
            "Aurora, table A.7 of the dissertation; hidden layers of its publication",
        ),
        preset(
            "aware",
            AlgorithmConfig::Ddpg(aware()),
            None,
            "AWARE, table 5.2 of the dissertation",
        ),
        preset(
            "cartpole-dqn",
            AlgorithmConfig::Dqn(cartpole_dqn()),
            CARTPOLE,
            "chosen on seeds that no reported figure uses",
        ),
        preset(
            "cartpole-ppo",
            AlgorithmConfig::Ppo(cartpole_ppo()),
            CARTPOLE,
            "Stable-Baselines3's published settings for CartPole",
        ),
        preset(
            "cartpole-reinforce",
            AlgorithmConfig::Reinforce(cartpole_reinforce()),
            CARTPOLE,
            "chosen on seeds that no reported figure uses",
        ),
        preset("firm", AlgorithmConfig::Ddpg(firm()), None, "FIRM, table 3.3 of the dissertation"),
        preset(
            "grid-world",
            AlgorithmConfig::QLearning(grid_world()),
            Some("toy/grid-world-v1"),
            "a table that stops exploring",
        ),
        preset(
            "ma-ppo",
            AlgorithmConfig::Ppo(ma_ppo()),
            None,
            "MA-PPO, table 3 of the EuroMLSys paper",
        ),
        preset(
            "pendulum-ddpg",
            AlgorithmConfig::Ddpg(pendulum_ddpg()),
            Some("classic/pendulum-v1"),
            "Stable-Baselines3's published settings for Pendulum, smaller networks",
        ),
        preset(
            "s-rl",
            AlgorithmConfig::Ppo(s_rl()),
            None,
            "S-RL, table 4.2 of the dissertation, single agent",
        ),
        preset(
            "simppo",
            AlgorithmConfig::Ppo(simppo()),
            None,
            "SIMPPO, table 4.2 of the dissertation, multi-agent",
        ),
        preset(
            "smart-overclock",
            AlgorithmConfig::Dqn(smart_overclock()),
            None,
            "SmartOverclock, table A.5 of the dissertation; hidden layers of the library it names",
        ),
    ]
}

/// The preset made for this algorithm and task, if there is one.
pub fn for_task(algorithm: Algorithm, task: &str) -> Option<Preset> {
    all()
        .into_iter()
        .find(|preset| preset.task == Some(task) && preset.config.algorithm() == algorithm)
}

/// The preset of this name.
pub fn by_name(name: &str) -> Option<Preset> {
    all().into_iter().find(|preset| preset.name == name)
}

/// Table 4.2, single agent. The tables are silent on the advantage's lambda and on
/// Adam's epsilon: 0.95 and 1e-5 are the usual ones.
pub fn s_rl() -> PpoConfig {
    PpoConfig {
        num_envs: 1,
        steps_per_update: 50,
        epochs: 5,
        minibatch: 10,
        hidden: vec![64, 64],
        activation: Activation::Tanh,
        actor_learning_rate: 3e-4,
        critic_learning_rate: 3e-4,
        schedule: Schedule::Constant,
        adam_epsilon: 1e-5,
        gamma: 0.99,
        gae_lambda: 0.95,
        clip: 0.2,
        value_clip: None,
        entropy_coefficient: 0.01,
        value_coefficient: 0.05,
        max_grad_norm: None,
        target_kl: None,
        // Five or ten rows have no useful deviation of their own.
        normalise_advantages: AdvantageNormalisation::Batch,
        reward_scale: 1.0,
    }
}

/// Table 4.2, multi-agent: smaller minibatches reuse data less.
pub fn simppo() -> PpoConfig {
    PpoConfig { minibatch: 5, ..s_rl() }
}

/// Table 3 of the EuroMLSys paper: episodes of 200 steps.
pub fn ma_ppo() -> PpoConfig {
    PpoConfig { steps_per_update: 200, minibatch: 5, ..s_rl() }
}

/// Table 3.3.
pub fn firm() -> DdpgConfig {
    DdpgConfig {
        num_envs: 1,
        replay_capacity: 100_000,
        learning_starts: 64,
        train_every: 1,
        gradient_steps: 1,
        minibatch: 64,
        hidden: vec![40, 40],
        activation: Activation::Relu,
        actor_learning_rate: 3e-4,
        critic_learning_rate: 3e-3,
        gamma: 0.9,
        soft_update: 2e-3,
        noise: NoiseConfig::Gaussian { sigma: 0.2 },
        exploration_start: 1.0,
        exploration_decay: 1e-6,
        exploration_end: 0.0,
        reward_scale: 1.0,
    }
}

/// Table A.7. One environment, as the table's 2048 steps come from one; ten epochs are the default of the
/// library that it was made with.
pub fn aurora() -> PpoConfig {
    PpoConfig {
        num_envs: 1,
        steps_per_update: 2048,
        epochs: 10,
        minibatch: 64,
        hidden: vec![32, 16],
        activation: Activation::Tanh,
        actor_learning_rate: 3e-4,
        critic_learning_rate: 3e-4,
        gamma: 0.99,
        gae_lambda: 0.95,
        clip: 0.2,
        entropy_coefficient: 0.005,
        value_coefficient: 0.5,
        ..PpoConfig::default()
    }
}

/// Table A.5, and the defaults of the library that it adopts: exploration from 1 to 0.05, two hidden layers of 64, a step
/// for every fourth transition, the target copied every 10 000 steps (2500 gradient steps).
pub fn smart_overclock() -> DqnConfig {
    DqnConfig {
        num_envs: 1,
        replay_capacity: 1_000_000,
        learning_starts: 50_000,
        train_every: 4,
        gradient_steps: 1,
        minibatch: 32,
        target_update_every: 2_500,
        soft_update: None,
        double: false,
        hidden: vec![64, 64],
        activation: Activation::Relu,
        learning_rate: 1e-4,
        schedule: Schedule::Constant,
        gamma: 0.99,
        epsilon_start: 1.0,
        epsilon_end: 0.05,
        epsilon_decay_steps: 100_000,
        max_grad_norm: Some(10.0),
    }
}

/// Table 5.2.
pub fn aware() -> DdpgConfig {
    DdpgConfig { replay_capacity: 1_000_000, gamma: 0.99, soft_update: 3e-3, ..firm() }
}

/// CartPole by PPO: 100 000 steps.
pub fn cartpole_ppo() -> PpoConfig {
    PpoConfig {
        num_envs: 8,
        steps_per_update: 32,
        epochs: 20,
        minibatch: 256,
        actor_learning_rate: 1e-3,
        critic_learning_rate: 1e-3,
        schedule: Schedule::Linear,
        gamma: 0.98,
        gae_lambda: 0.8,
        ..PpoConfig::default()
    }
}

/// CartPole by DQN: 120 000 steps. A short memory, a target that follows slowly and
/// little noise late. With the settings that Stable-Baselines3 publishes (bursts of
/// 128 gradient steps, a memory of everything, hard copies), one agent in two had
/// unlearnt the task again when its budget ended.
pub fn cartpole_dqn() -> DqnConfig {
    DqnConfig {
        learning_rate: 3e-4,
        schedule: Schedule::Linear,
        minibatch: 64,
        replay_capacity: 10_000,
        learning_starts: 1_000,
        train_every: 1,
        gradient_steps: 1,
        soft_update: Some(5e-3),
        double: false,
        epsilon_decay_steps: 5_000,
        epsilon_end: 0.01,
        hidden: vec![128, 128],
        ..DqnConfig::default()
    }
}

/// CartPole by REINFORCE.
pub fn cartpole_reinforce() -> ReinforceConfig {
    ReinforceConfig::default()
}

/// Pendulum by DDPG: 20 000 steps.
pub fn pendulum_ddpg() -> DdpgConfig {
    DdpgConfig {
        gamma: 0.98,
        replay_capacity: 200_000,
        learning_starts: 1_000,
        minibatch: 128,
        noise: NoiseConfig::Gaussian { sigma: 0.1 },
        ..DdpgConfig::default()
    }
}

/// The grid world's shortest path.
pub fn grid_world() -> QLearningConfig {
    QLearningConfig {
        learning_rate: 0.5,
        gamma: 0.99,
        epsilon_start: 0.5,
        epsilon_end: 0.0,
        epsilon_decay_steps: 10_000,
        ..QLearningConfig::default()
    }
}
