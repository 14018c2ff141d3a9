//! What an algorithm cannot learn, and settings that make no sense, are refused before
//! anything runs, with the way out in the text.

use homeostat_env::{Space, make};
use homeostat_rl::{
    Algorithm, AlgorithmConfig, DdpgConfig, DqnConfig, NoiseConfig, PpoConfig, QLearningConfig,
    ReinforceConfig, presets,
};

use crate::play::{context, spec};

#[test]
fn unsuited_spaces_are_refused() {
    let check = |algorithm: Algorithm, env_id: &str, expect: &str| {
        let context = context(make(env_id).unwrap().spec(), 0, 0);
        let error = algorithm.default_config().build(&context).err().expect("it is unsuited");
        assert_eq!(error.to_string(), expect);
    };
    check(
        Algorithm::Dqn,
        "classic/pendulum-v1",
        "dqn cannot learn on classic/pendulum-v1: its actions are Box(-2..=2, 1), \
         dqn needs one discrete choice; try ppo or ddpg",
    );
    check(
        Algorithm::Dqn,
        "toy/identity-multi-v1",
        "dqn cannot learn on toy/identity-multi-v1: its actions are MultiDiscrete([3, 4]), \
         dqn needs one discrete choice; try ppo or reinforce",
    );
    check(
        Algorithm::Ddpg,
        "classic/cartpole-v1",
        "ddpg cannot learn on classic/cartpole-v1: its actions are Discrete(2), \
         ddpg needs a box; try ppo or dqn",
    );
    check(
        Algorithm::QLearning,
        "classic/cartpole-v1",
        "q-learning cannot learn on classic/cartpole-v1: a table needs discrete states and \
         actions, these are Box([-4.8, -inf, -0.41887903, -inf]..=[4.8, inf, 0.41887903, inf]) \
         and Discrete(2); try ppo or dqn",
    );
}

#[test]
fn ddpg_refuses_actions_without_ends() {
    let endless = Space::uniform_box(1, 0.0, f32::INFINITY);
    let spec = spec(Space::Discrete(2), endless);
    let config = AlgorithmConfig::Ddpg(DdpgConfig::default());
    assert_eq!(
        config.build(&context(&spec, 0, 0)).err().expect("it is unsuited").to_string(),
        "ddpg cannot learn on test/spaces-v1: its action box has an infinite end, \
         ddpg stretches tanh to finite ones; try ppo"
    );
}

#[test]
fn defaults_and_presets_are_within_their_ranges() {
    for algorithm in Algorithm::ALL {
        algorithm.default_config().validate().unwrap();
        assert_eq!(Algorithm::by_name(algorithm.name()), Some(algorithm));
    }
    for preset in presets::all() {
        preset.config.validate().unwrap_or_else(|error| panic!("{}: {error}", preset.name));
    }
}

const AT_LEAST_ONE: &str = "it must be at least 1";
const POSITIVE: &str = "it must be a number above 0";
const RATE: &str = "it must be a number above 0 and at most 1";
const NOT_NEGATIVE: &str = "it must be a number, 0 or above";
const UNIT: &str = "it must lie from 0 to 1";
const BELOW_ONE: &str = "it must lie from 0 to below 1";

/// Numbers outside each range, NaN among them.
fn outside(range: &str) -> [f32; 4] {
    match range {
        POSITIVE => [f32::NAN, f32::INFINITY, -1.0, 0.0],
        RATE => [f32::NAN, f32::INFINITY, 0.0, 1e30],
        NOT_NEGATIVE => [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0],
        UNIT => [f32::NAN, f32::INFINITY, -0.5, 1.5],
        BELOW_ONE => [f32::NAN, f32::INFINITY, -0.5, 1.0],
        _ => unreachable!("the ranges above are all"),
    }
}

/// Settings of one algorithm, to be spoilt one at a time.
struct Settings<Config> {
    algorithm: fn(Config) -> AlgorithmConfig,
}

impl<Config: Default> Settings<Config> {
    fn check(&self, change: impl FnOnce(&mut Config), expect: &str) {
        let mut config = Config::default();
        change(&mut config);
        let error =
            (self.algorithm)(config).validate().expect_err("it must be refused").to_string();
        assert_eq!(error, expect);
    }

    fn count(&self, name: &str, set: impl FnOnce(&mut Config)) {
        self.check(set, &format!("{name} = 0 is out of range: {AT_LEAST_ONE}"));
    }

    /// A count that has an upper end too, above which it would exhaust the machine.
    fn limited(&self, name: &str, most: usize, set: fn(&mut Config, usize)) {
        for value in [0, most + 1, usize::MAX] {
            let expect = format!("{name} = {value} is out of range: it must lie from 1 to {most}");
            self.check(|config| set(config, value), &expect);
        }
    }

    fn number(&self, name: &str, range: &str, set: fn(&mut Config, f32)) {
        for value in outside(range) {
            let expect = format!("{name} = {value} is out of range: {range}");
            self.check(|config| set(config, value), &expect);
        }
    }
}

#[test]
fn ppo_refuses_settings_out_of_range() {
    let ppo = Settings { algorithm: AlgorithmConfig::Ppo };
    ppo.limited("ppo.num_envs", 1 << 16, |config: &mut PpoConfig, count| config.num_envs = count);
    // The default plays eight environments.
    ppo.limited("ppo.steps_per_update", 1 << 21, |config, count| config.steps_per_update = count);
    ppo.count("ppo.epochs", |config| config.epochs = 0);
    ppo.limited("ppo.minibatch", 1 << 24, |config, count| config.minibatch = count);
    ppo.count("ppo.hidden", |config| config.hidden = vec![8, 0]);
    ppo.number("ppo.actor_learning_rate", RATE, |c, x| c.actor_learning_rate = x);
    ppo.number("ppo.critic_learning_rate", RATE, |c, x| c.critic_learning_rate = x);
    ppo.number("ppo.adam_epsilon", POSITIVE, |c, x| c.adam_epsilon = x);
    ppo.number("ppo.gamma", BELOW_ONE, |c, x| c.gamma = x);
    ppo.number("ppo.gae_lambda", UNIT, |c, x| c.gae_lambda = x);
    ppo.number("ppo.clip", POSITIVE, |c, x| c.clip = x);
    ppo.number("ppo.value_clip", POSITIVE, |c, x| c.value_clip = Some(x));
    ppo.number("ppo.entropy_coefficient", UNIT, |c, x| c.entropy_coefficient = x);
    ppo.number("ppo.value_coefficient", POSITIVE, |c, x| c.value_coefficient = x);
    ppo.number("ppo.max_grad_norm", POSITIVE, |c, x| c.max_grad_norm = Some(x));
    ppo.number("ppo.target_kl", POSITIVE, |c, x| c.target_kl = Some(x));
    ppo.number("ppo.reward_scale", POSITIVE, |c, x| c.reward_scale = x);
}

#[test]
fn dqn_refuses_settings_out_of_range() {
    let dqn = Settings { algorithm: AlgorithmConfig::Dqn };
    dqn.limited("dqn.num_envs", 1 << 16, |config: &mut DqnConfig, count| config.num_envs = count);
    dqn.limited("dqn.replay_capacity", 1 << 30, |config, count| config.replay_capacity = count);
    dqn.count("dqn.train_every", |config| config.train_every = 0);
    dqn.count("dqn.gradient_steps", |config| config.gradient_steps = 0);
    dqn.limited("dqn.minibatch", 1 << 24, |config, count| config.minibatch = count);
    dqn.count("dqn.target_update_every", |config| config.target_update_every = 0);
    dqn.count("dqn.hidden", |config| config.hidden = vec![0]);
    dqn.number("dqn.learning_rate", RATE, |c, x| c.learning_rate = x);
    dqn.number("dqn.gamma", BELOW_ONE, |c, x| c.gamma = x);
    dqn.number("dqn.epsilon_start", UNIT, |c, x| c.epsilon_start = x);
    dqn.number("dqn.epsilon_end", UNIT, |c, x| c.epsilon_end = x);
    dqn.number("dqn.max_grad_norm", POSITIVE, |c, x| c.max_grad_norm = Some(x));
}

#[test]
fn ddpg_refuses_settings_out_of_range() {
    let ddpg = Settings { algorithm: AlgorithmConfig::Ddpg };
    ddpg.limited("ddpg.num_envs", 1 << 16, |config: &mut DdpgConfig, count| {
        config.num_envs = count
    });
    ddpg.limited("ddpg.replay_capacity", 1 << 30, |config, count| config.replay_capacity = count);
    ddpg.count("ddpg.train_every", |config| config.train_every = 0);
    ddpg.count("ddpg.gradient_steps", |config| config.gradient_steps = 0);
    ddpg.limited("ddpg.minibatch", 1 << 24, |config, count| config.minibatch = count);
    ddpg.count("ddpg.hidden", |config| config.hidden = vec![0]);
    ddpg.number("ddpg.actor_learning_rate", RATE, |c, x| c.actor_learning_rate = x);
    ddpg.number("ddpg.critic_learning_rate", RATE, |c, x| c.critic_learning_rate = x);
    ddpg.number("ddpg.gamma", BELOW_ONE, |c, x| c.gamma = x);
    ddpg.number("ddpg.soft_update", UNIT, |c, x| c.soft_update = x);
    ddpg.number("ddpg.noise.gaussian.sigma", NOT_NEGATIVE, |c, x| {
        c.noise = NoiseConfig::Gaussian { sigma: x };
    });
    ddpg.number("ddpg.noise.ornstein-uhlenbeck.sigma", NOT_NEGATIVE, |c, x| {
        c.noise = NoiseConfig::OrnsteinUhlenbeck { sigma: x, theta: 0.1 };
    });
    ddpg.number("ddpg.noise.ornstein-uhlenbeck.theta", UNIT, |c, x| {
        c.noise = NoiseConfig::OrnsteinUhlenbeck { sigma: 0.1, theta: x };
    });
    ddpg.number("ddpg.exploration_start", NOT_NEGATIVE, |c, x| c.exploration_start = x);
    ddpg.number("ddpg.exploration_decay", NOT_NEGATIVE, |c, x| c.exploration_decay = x);
    ddpg.number("ddpg.exploration_end", NOT_NEGATIVE, |c, x| c.exploration_end = x);
    ddpg.number("ddpg.reward_scale", POSITIVE, |c, x| c.reward_scale = x);
}

#[test]
fn q_learning_refuses_settings_out_of_range() {
    let q_learning = Settings { algorithm: AlgorithmConfig::QLearning };
    q_learning.limited("q-learning.num_envs", 1 << 16, |config: &mut QLearningConfig, count| {
        config.num_envs = count
    });
    q_learning.number("q-learning.learning_rate", UNIT, |c, x| c.learning_rate = x);
    q_learning.number("q-learning.gamma", UNIT, |c, x| c.gamma = x);
    q_learning.number("q-learning.epsilon_start", UNIT, |c, x| c.epsilon_start = x);
    q_learning.number("q-learning.epsilon_end", UNIT, |c, x| c.epsilon_end = x);
    q_learning.check(
        |config| config.initial_value = f32::INFINITY,
        "q-learning.initial_value = inf is out of range: it must be a finite number",
    );
}

#[test]
fn reinforce_refuses_settings_out_of_range() {
    let reinforce = Settings { algorithm: AlgorithmConfig::Reinforce };
    reinforce.count("reinforce.episodes_per_update", |config: &mut ReinforceConfig| {
        config.episodes_per_update = 0;
    });
    reinforce.count("reinforce.baseline_steps", |config| config.baseline_steps = 0);
    reinforce.count("reinforce.hidden", |config| config.hidden = vec![0]);
    reinforce.number("reinforce.policy_learning_rate", RATE, |c, x| {
        c.policy_learning_rate = x;
    });
    reinforce.number("reinforce.baseline_learning_rate", RATE, |c, x| {
        c.baseline_learning_rate = x;
    });
    reinforce.number("reinforce.gamma", UNIT, |c, x| c.gamma = x);
    reinforce.number("reinforce.entropy_coefficient", UNIT, |c, x| c.entropy_coefficient = x);
    reinforce.number("reinforce.max_grad_norm", POSITIVE, |c, x| c.max_grad_norm = Some(x));
    reinforce.number("reinforce.reward_scale", POSITIVE, |c, x| c.reward_scale = x);
}

#[test]
fn no_agent_is_built_from_settings_out_of_range() {
    let spec = spec(Space::Discrete(2), Space::Discrete(2));
    let config = AlgorithmConfig::Ppo(PpoConfig { clip: -0.2, ..PpoConfig::default() });
    assert_eq!(
        config.build(&context(&spec, 0, 0)).err().expect("the clip is negative").to_string(),
        "ppo.clip = -0.2 is out of range: it must be a number above 0"
    );
}
