//! The contract of one learning agent.

use homeostat_core::{AgentId, Persist, SeedTree};
use homeostat_env::{Action, EnvSpec};

use crate::{Error, Policy, Result, Workspace};

/// One agent that learns. Whoever drives it calls, again and again, `act`, then
/// `record` for each lane, then `learn`.
pub trait Learner: Persist + Send {
    /// How many copies of the world the agent plays at once.
    fn lanes(&self) -> usize;

    /// Chooses an action for each lane, exploring. `obs` has one row per lane.
    fn act(&mut self, obs: &[f32], actions: &mut [Action], workspace: &mut Workspace)
    -> Result<()>;

    /// Takes in what came of the last action of one lane.
    fn record(
        &mut self,
        lane: usize,
        outcome: Outcome<'_>,
        workspace: &mut Workspace,
    ) -> Result<()>;

    /// Learns, if enough was recorded since the last time. `progress` is the part
    /// of the training budget that is spent, for schedules.
    fn learn(&mut self, progress: f64, workspace: &mut Workspace) -> Result<Option<Learned>>;

    /// What the agent would do if it stopped learning now.
    fn policy(&self) -> Policy;

    /// What the agent expects from this state on: the discounted sum of the rewards
    /// to come, in the units of the world whatever the agent scales them by.
    fn value(&self, obs: &[f32], workspace: &mut Workspace) -> f32;

    /// Bytes that this agent keeps while it trains.
    fn bytes(&self) -> usize;
}

/// What one step of one lane led to.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// The reward.
    pub reward: f64,
    /// The task ended: there is no value beyond.
    pub terminated: bool,
    /// Somebody stopped the episode: the value beyond is that of `next_obs`.
    pub truncated: bool,
    /// The observation the step led to, never that of the next episode.
    pub next_obs: &'a [f32],
}

/// Figures of one update, by name, for logs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Learned {
    /// Name and value, in the order of the log.
    pub figures: Vec<(&'static str, f64)>,
}

/// Who an agent is and where it lives.
#[derive(Debug, Clone)]
pub struct AgentContext {
    /// Its number.
    pub agent: AgentId,
    /// The world it acts in.
    pub spec: EnvSpec,
    /// Where its random streams come from.
    pub seeds: SeedTree,
}

/// Counts an agent's steps and refuses numbers that are not finite.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guard {
    pub(crate) agent: AgentId,
    pub(crate) step: u64,
}

impl Guard {
    pub(crate) fn new(agent: AgentId) -> Self {
        Self { agent, step: 0 }
    }

    /// Counts a step and hands on its reward, scaled; refuses what is not finite.
    pub(crate) fn take_in(&mut self, outcome: &Outcome<'_>, reward_scale: f32) -> Result<f32> {
        self.step += 1;
        let reward = self.number("reward", outcome.reward as f32 * reward_scale)?;
        self.finite("next observation", outcome.next_obs)?;
        Ok(reward)
    }

    /// Refuses the first number of `values` that is not finite.
    pub(crate) fn finite(&self, tensor: &str, values: &[f32]) -> Result<()> {
        // A sum over zero times everything is NaN exactly if something is not
        // finite; it vectorises, the search for the culprit is for the rare case.
        if values.iter().map(|value| value * 0.0).sum::<f32>() == 0.0 {
            return Ok(());
        }
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(self.not_finite(format!("{tensor}[{index}]"), values[index])),
            None => Ok(()),
        }
    }

    /// Hands on the number, if it is finite.
    pub(crate) fn number(&self, tensor: &str, value: f32) -> Result<f32> {
        if value.is_finite() { Ok(value) } else { Err(self.not_finite(tensor.to_owned(), value)) }
    }

    pub(crate) fn not_finite(&self, tensor: String, value: f32) -> Error {
        Error::NotFinite { agent: self.agent, step: self.step, tensor, value }
    }
}
