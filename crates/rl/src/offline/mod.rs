//! Offline reinforcement learning: a policy from recorded transitions, without acting.
//!
//! [`Bcq`], [`Iql`] and [`Td3Bc`] stay close to the recorded actions in three ways: BCQ chooses
//! among actions of a generative model of the data, IQL never evaluates an action that is not in
//! the data, TD3+BC adds the distance from the recorded action to its loss. One readable file each.
//! They learn actions in a box, scaled to [-1, 1].

mod bcq;
mod dataset;
mod iql;
#[cfg(test)]
mod pytorch_tests;
mod recorded_decisions;
mod td3_bc;
mod twin_critic;

pub(crate) use bcq::perturb;
pub use bcq::{Bcq, BcqConfig};
pub use dataset::{OfflineDataset, Recorded};
pub use iql::{Iql, IqlConfig};
pub use recorded_decisions::recorded_env;
pub use td3_bc::{Td3Bc, Td3BcConfig};

use homeostat_core::Persist;
use serde::{Deserialize, Serialize};

use crate::{AgentContext, Learned, Policy, Result, Workspace};

/// An agent that learns from a dataset and never acts while it learns.
pub trait OfflineLearner: Persist + Send {
    /// One gradient step of every network, on a minibatch of `data`.
    fn learn(&mut self, data: &OfflineDataset, workspace: &mut Workspace) -> Result<Learned>;

    /// Gradient steps so far.
    fn steps(&self) -> u64;

    /// The present policy.
    fn policy(&self) -> Policy;

    /// Memory of this agent while it trains, in bytes, without the dataset.
    fn bytes(&self) -> usize;
}

/// The offline algorithms by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OfflineAlgorithm {
    /// Batch-constrained deep Q-learning.
    Bcq,
    /// Implicit Q-learning.
    Iql,
    /// TD3 with behaviour cloning.
    #[serde(rename = "td3-bc")]
    Td3Bc,
}

impl OfflineAlgorithm {
    /// Every algorithm.
    pub const ALL: [Self; 3] = [Self::Bcq, Self::Iql, Self::Td3Bc];

    /// The name used on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bcq => "bcq",
            Self::Iql => "iql",
            Self::Td3Bc => "td3-bc",
        }
    }

    /// The algorithm of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Its default settings.
    pub fn default_config(self) -> OfflineConfig {
        match self {
            Self::Bcq => OfflineConfig::Bcq(BcqConfig::default()),
            Self::Iql => OfflineConfig::Iql(IqlConfig::default()),
            Self::Td3Bc => OfflineConfig::Td3Bc(Td3BcConfig::default()),
        }
    }
}

/// The settings of one offline algorithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OfflineConfig {
    /// Settings of BCQ.
    Bcq(BcqConfig),
    /// Settings of IQL.
    Iql(IqlConfig),
    /// Settings of TD3+BC.
    #[serde(rename = "td3-bc")]
    Td3Bc(Td3BcConfig),
}

impl OfflineConfig {
    /// Which algorithm.
    pub fn algorithm(&self) -> OfflineAlgorithm {
        match self {
            Self::Bcq(_) => OfflineAlgorithm::Bcq,
            Self::Iql(_) => OfflineAlgorithm::Iql,
            Self::Td3Bc(_) => OfflineAlgorithm::Td3Bc,
        }
    }

    /// Refuses settings outside their range.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Bcq(config) => config.validate(),
            Self::Iql(config) => config.validate(),
            Self::Td3Bc(config) => config.validate(),
        }
    }

    /// A fresh agent.
    pub fn build(&self, context: &AgentContext) -> Result<Box<dyn OfflineLearner>> {
        Ok(match self {
            Self::Bcq(config) => Box::new(Bcq::new(config, context)?),
            Self::Iql(config) => Box::new(Iql::new(config, context)?),
            Self::Td3Bc(config) => Box::new(Td3Bc::new(config, context)?),
        })
    }
}
