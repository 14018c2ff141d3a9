//! All algorithms behind one configuration.

use homeostat_env::Space;
use serde::{Deserialize, Serialize};

use crate::{
    AgentContext, ConditionedLearner, Ddpg, DdpgConfig, Dqn, DqnConfig, EmbeddingTable, Error,
    Learner, Ppo, PpoConfig, QLearning, QLearningConfig, Reinforce, ReinforceConfig, Result,
};

/// The algorithms by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Proximal policy optimisation.
    Ppo,
    /// Deep Q-network.
    Dqn,
    /// Deep deterministic policy gradient.
    Ddpg,
    /// Tabular Q-learning.
    QLearning,
    /// Policy gradient with baseline.
    Reinforce,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 5] = [Self::Ppo, Self::Dqn, Self::Ddpg, Self::QLearning, Self::Reinforce];

    /// The name used on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ppo => "ppo",
            Self::Dqn => "dqn",
            Self::Ddpg => "ddpg",
            Self::QLearning => "q-learning",
            Self::Reinforce => "reinforce",
        }
    }

    /// The algorithm of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Its default settings.
    pub fn default_config(self) -> AlgorithmConfig {
        match self {
            Self::Ppo => AlgorithmConfig::Ppo(PpoConfig::default()),
            Self::Dqn => AlgorithmConfig::Dqn(DqnConfig::default()),
            Self::Ddpg => AlgorithmConfig::Ddpg(DdpgConfig::default()),
            Self::QLearning => AlgorithmConfig::QLearning(QLearningConfig::default()),
            Self::Reinforce => AlgorithmConfig::Reinforce(ReinforceConfig::default()),
        }
    }
}

/// The settings of one algorithm.
#[derive(Debug, Clone, PartialEq)]
pub enum AlgorithmConfig {
    /// Settings of PPO.
    Ppo(PpoConfig),
    /// Settings of DQN.
    Dqn(DqnConfig),
    /// Settings of DDPG.
    Ddpg(DdpgConfig),
    /// Settings of tabular Q-learning.
    QLearning(QLearningConfig),
    /// Settings of REINFORCE.
    Reinforce(ReinforceConfig),
}

impl AlgorithmConfig {
    /// Which algorithm.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Self::Ppo(_) => Algorithm::Ppo,
            Self::Dqn(_) => Algorithm::Dqn,
            Self::Ddpg(_) => Algorithm::Ddpg,
            Self::QLearning(_) => Algorithm::QLearning,
            Self::Reinforce(_) => Algorithm::Reinforce,
        }
    }

    /// Refuses settings outside their range.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Ppo(config) => config.validate(),
            Self::Dqn(config) => config.validate(),
            Self::Ddpg(config) => config.validate(),
            Self::QLearning(config) => config.validate(),
            Self::Reinforce(config) => config.validate(),
        }
    }

    /// How many copies of the environment each agent plays at once.
    pub fn num_envs(&self) -> usize {
        match self {
            Self::Ppo(config) => config.num_envs,
            Self::Dqn(config) => config.num_envs,
            Self::Ddpg(config) => config.num_envs,
            Self::QLearning(config) => config.num_envs,
            Self::Reinforce(_) => 1,
        }
    }

    /// A fresh agent.
    pub fn build(&self, context: &AgentContext) -> Result<Box<dyn Learner>> {
        Ok(match self {
            Self::Ppo(config) => Box::new(Ppo::new(config, context)?),
            Self::Dqn(config) => Box::new(Dqn::new(config, context)?),
            Self::Ddpg(config) => Box::new(Ddpg::new(config, context)?),
            Self::QLearning(config) => Box::new(QLearning::new(config, context)?),
            Self::Reinforce(config) => Box::new(Reinforce::new(config, context)?),
        })
    }
}

impl AlgorithmConfig {
    /// A fresh agent that reads the embeddings of this table, which has `num_envs` environments.
    pub fn build_conditioned(
        &self,
        context: &AgentContext,
        table: EmbeddingTable,
    ) -> Result<Box<dyn ConditionedLearner>> {
        Ok(match self {
            Self::Ppo(config) => Box::new(Ppo::conditioned(config, context, table)?),
            Self::Dqn(config) => Box::new(Dqn::conditioned(config, context, table)?),
            Self::Ddpg(config) => Box::new(Ddpg::conditioned(config, context, table)?),
            Self::QLearning(_) | Self::Reinforce(_) => {
                return Err(Error::Unsuited {
                    algorithm: self.algorithm().name(),
                    env: context.spec.id.to_string(),
                    reason: "it cannot read an embedding; try ppo, dqn or ddpg".to_owned(),
                });
            }
        })
    }
}

/// Algorithms that can take these actions, for the message that another cannot.
pub(crate) fn suited_to(action: &Space) -> &'static str {
    match action {
        Space::Discrete(_) => "ppo or dqn",
        Space::MultiDiscrete(_) => "ppo or reinforce",
        Space::Box { .. } => "ppo or ddpg",
    }
}

fn refuse(setting: &str, value: impl ToString, expected: &'static str) -> Result<()> {
    Err(Error::Setting {
        setting: setting.to_owned(),
        value: value.to_string(),
        expected: expected.into(),
    })
}

/// Environments, rows or transitions from one to `most`; beyond, a mistyped number would
/// exhaust the machine.
pub(crate) fn count(setting: &str, value: usize, most: usize) -> Result<()> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    let expected = format!("it must lie from 1 to {most}");
    Err(Error::Setting {
        setting: setting.to_owned(),
        value: value.to_string(),
        expected: expected.into(),
    })
}

/// Maximum number of copies of an environment that one agent may play.
pub(crate) const MAX_ENVS: usize = 1 << 16;
/// Most rows of one batch.
pub(crate) const MAX_ROWS: usize = 1 << 24;
/// Most transitions remembered.
pub(crate) const MAX_REMEMBERED: usize = 1 << 30;

pub(crate) fn at_least_one(setting: &str, value: usize) -> Result<()> {
    if value >= 1 { Ok(()) } else { refuse(setting, value, "it must be at least 1") }
}

pub(crate) fn positive(setting: &str, value: f32) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        refuse(setting, value, "it must be a number above 0")
    }
}

/// Adam moves each weight by about the learning rate: above 1 nothing is learnt, and far above it
/// weights stay finite and useless.
pub(crate) fn learning_rate(setting: &str, value: f32) -> Result<()> {
    if value > 0.0 && value <= 1.0 {
        Ok(())
    } else {
        refuse(setting, value, "it must be a number above 0 and at most 1")
    }
}

pub(crate) fn not_negative(setting: &str, value: f32) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        refuse(setting, value, "it must be a number, 0 or above")
    }
}

/// From zero to one, both included.
pub(crate) fn unit(setting: &str, value: f32) -> Result<()> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        refuse(setting, value, "it must lie from 0 to 1")
    }
}

/// From zero to below one: a discount of one has no finite value in an environment that never ends.
pub(crate) fn open_unit(setting: &str, value: f32) -> Result<()> {
    if (0.0..1.0).contains(&value) {
        Ok(())
    } else {
        refuse(setting, value, "it must lie from 0 to below 1")
    }
}
