//! A validated run.

use std::collections::BTreeMap;

use homeostat_nn::Kernel;
use homeostat_rl::AlgorithmConfig;
use homeostat_simppo::Method;

use crate::EnvFactory;

/// How a team of agents learns.
#[derive(Debug, Clone, PartialEq)]
pub struct TeamMethod {
    /// The name that was asked for.
    pub name: &'static str,
    /// The method of that name, with the settings that were changed.
    pub method: Method,
}

/// A validated run.
#[derive(Debug, Clone)]
pub struct RunConfig {
    /// Environment id.
    pub env: String,
    /// Where its environments come from.
    pub env_factory: EnvFactory,
    /// Root of all randomness.
    pub seed: u64,
    /// Independent learners; in a shared environment those that it begins with.
    pub agents: u32,
    /// Steps of each agent.
    pub steps: u64,
    /// Steps between two lines of metrics.
    pub log_every: u64,
    /// Steps between two checkpoints.
    pub checkpoint_every: u64,
    /// Worker threads; all cores if absent.
    pub threads: Option<usize>,
    /// Kernel of the networks.
    pub kernel: Kernel,
    /// Algorithm and its settings; of each network, if agents learn as a team.
    pub algorithm: AlgorithmConfig,
    /// How agents learn as a team, if they do.
    pub team: Option<TeamMethod>,
    /// The same as text, for the run directory.
    pub toml: String,
    /// The settings that make this run and no other: all but budget, rhythm and threads.
    pub identity: BTreeMap<String, String>,
}

impl RunConfig {
    /// What was asked to learn: an algorithm, or the method of a team.
    pub fn algorithm_name(&self) -> &'static str {
        self.team.as_ref().map_or(self.algorithm.algorithm().name(), |team| team.name)
    }

    /// The default name of its directory: `ppo-cartpole-v1-seed7`.
    pub fn run_name(&self) -> String {
        let env = self.env.split_once('/').map_or(self.env.as_str(), |(_, name)| name);
        format!("{}-{env}-seed{}", self.algorithm_name(), self.seed)
    }
}
