//! Learners and environments brought together: a fleet of agents, advanced round by round.
//!
//! Agents have environments of their own or share one; which of the two follows from the
//! environment. Those that share one learn independently, or as a team.

use std::collections::BTreeMap;

use homeostat_core::{AgentId, Snapshot};
use homeostat_lab::{Checkpoint, Error, Result, RunConfig};
use homeostat_nn::Kernel;
use homeostat_rl::Policy;

use crate::episode_stats::{AgentRound, EpisodeStats, TimeSplit};
use crate::separate_envs::SeparateEnvs;
use crate::shared_envs::SharedEnvs;

/// Agents in training.
pub struct Trainer {
    kernel: Kernel,
    identity: BTreeMap<String, String>,
    total_steps: u64,
    step: u64,
    group: Box<dyn AgentGroup>,
}

/// Agents with their environments.
pub(crate) trait AgentGroup: Send {
    /// Advances every agent to `target` steps of `total`. An agent that fails is stopped;
    /// the others go on.
    fn advance(&mut self, target: u64, total: u64);

    /// Reports the round of every agent that had a part in it, ordered by number.
    fn close_round(&mut self) -> (Vec<AgentRound>, TimeSplit);

    /// The statistics of every agent that ever learnt, ordered by number.
    fn stats(&self) -> Vec<&EpisodeStats>;

    /// Whether no agent is left to learn.
    fn has_stopped(&self) -> bool;

    /// Every agent's policy; one that stopped on an error has none to trust.
    fn policies(&self) -> Vec<(AgentId, Policy)>;

    /// Writes the whole state.
    fn save(&self, out: &mut Snapshot);

    /// Restores what [`AgentGroup::save`] wrote.
    fn load(&mut self, from: &Snapshot) -> Result<()>;
}

impl Trainer {
    /// Fresh agents. What is random in agent `k` depends on the seed and on `k` alone, not
    /// on how many others there are.
    pub fn new(config: &RunConfig) -> Result<Self> {
        let make = || Ok(config.env_factory.make_multi_agent(&config.env)?);
        let is_shared = config.env_factory.is_shared(&config.env);
        let group: Box<dyn AgentGroup> = if is_shared || config.team.is_some() {
            Box::new(SharedEnvs::new(config, &make)?)
        } else {
            Box::new(SeparateEnvs::new(config)?)
        };
        Ok(Self::with_group(config, group))
    }

    pub(crate) fn with_group(config: &RunConfig, group: Box<dyn AgentGroup>) -> Self {
        Self {
            kernel: config.kernel,
            identity: config.identity.clone(),
            total_steps: config.steps,
            step: 0,
            group,
        }
    }

    /// Agents as a checkpoint left them. Settings that would make it another run are
    /// refused by name.
    pub fn restore(config: &RunConfig, checkpoint: &Checkpoint) -> Result<Self> {
        checkpoint.refuse_changes(config)?;
        let mut this = Self::new(config)?;
        this.load(checkpoint)?;
        Ok(this)
    }

    pub(crate) fn load(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        self.step = checkpoint.step()?;
        self.group.load(checkpoint.state())
    }

    /// The whole state.
    pub fn checkpoint(&self) -> Checkpoint {
        let mut state = Snapshot::default();
        self.group.save(&mut state);
        Checkpoint::new(self.step, self.kernel, &self.identity, state)
    }

    /// Steps that each agent has taken.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Whether the budget is spent, or no agent is left to spend it.
    pub fn is_done(&self) -> bool {
        self.step >= self.total_steps || self.group.has_stopped()
    }

    /// Advances every agent by up to `steps` steps (rounded up to whole steps of all copies), all
    /// agents at once. An agent that fails is stopped; the others go on.
    pub fn round(&mut self, steps: u64) -> (Vec<AgentRound>, TimeSplit) {
        let target = (self.step + steps).min(self.total_steps);
        self.group.advance(target, self.total_steps);
        self.step = target;
        self.group.close_round()
    }

    /// The latest figures of every agent that ever learnt.
    pub fn latest(&self) -> Vec<AgentRound> {
        self.group.stats().into_iter().map(EpisodeStats::latest).collect()
    }

    /// Every agent's policy as it is now; one that stopped on an error has none to trust.
    pub fn policies(&self) -> Vec<(AgentId, Policy)> {
        self.group.policies()
    }

    /// Number of agents that ever learnt.
    pub fn agents(&self) -> usize {
        self.group.stats().len()
    }

    /// Steps that all agents have taken together.
    pub fn steps_of_all(&self) -> u64 {
        self.group.stats().iter().map(|stats| stats.step).sum()
    }
}

/// A fleet that exceeds the free memory is refused before it is built, where the
/// system tells how much there is.
pub(crate) fn refuse_what_does_not_fit(config: &RunConfig, bytes_per_agent: usize) -> Result<()> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes =
        line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let Some(free) = kibibytes.map(|kibibytes| kibibytes * 1024) else { return Ok(()) };
    let needed = u64::from(config.agents).saturating_mul(bytes_per_agent as u64);
    if needed <= free {
        return Ok(());
    }
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    Err(Error::OutOfRange {
        key: "run.agents".to_owned(),
        value: config.agents.to_string(),
        source_text: "this run".to_owned(),
        expected: format!(
            "it needs {:.1} GB, and {:.1} GB are free here",
            gigabytes(needed),
            gigabytes(free)
        ),
    })
}
