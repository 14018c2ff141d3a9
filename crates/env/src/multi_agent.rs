//! The contract of an environment that several agents share. Agents may join and leave during an
//! episode.

use homeostat_core::{AgentId, Persist};

use crate::{Action, EnvSpec, Info, Picture, Result};

/// An environment that many agents share, as PettingZoo's `ParallelEnv`. All agents have the same
/// spaces.
///
/// An episode ends when no agent is left, at the latest when the time limit truncates all of
/// them. A step is then an error until the next reset.
///
/// Actions and observations follow the order of [`MultiAgentEnv::agents`].
pub trait MultiAgentEnv: Persist + Send {
    /// Id, spaces of one agent, time limit and description.
    fn spec(&self) -> &EnvSpec;

    /// The agents that act in the next step, ascending.
    fn agents(&self) -> &[AgentId];

    /// Every agent that may ever join, where that is known.
    fn possible_agents(&self) -> Option<&[AgentId]>;

    /// Starts an episode; see [`crate::Env::reset`] for the seed.
    fn reset(&mut self, seed: Option<u64>) -> Result<()>;

    /// The present observation of `agent`; none if it is not among the agents.
    fn observation(&self, agent: AgentId) -> Option<&[f32]>;

    /// The index of an agent's task in [`ConfiguredSimulator::tasks`](crate::ConfiguredSimulator),
    /// where the environment has tasks. Agents with the same task may share parameters.
    fn task(&self, agent: AgentId) -> Option<usize> {
        let _ = agent;
        None
    }

    /// Advances by one step, with one action for each agent in their order.
    fn step(&mut self, actions: &[Action]) -> Result<MultiStep<'_>>;

    /// Figures of an agent's last step, for logs. They are there for the present agents, and for
    /// those that the time limit truncated. No policy reads them.
    fn info(&self, agent: AgentId) -> Info {
        let _ = agent;
        Info::new()
    }

    /// The present state as text; by default the list of agents.
    fn render(&self) -> String {
        let names: Vec<String> = self.agents().iter().map(ToString::to_string).collect();
        format!("{}\n{}\n", self.spec().id, names.join(" "))
    }

    /// The present state as shapes; by default the text of [`MultiAgentEnv::render`].
    fn picture(&self) -> Picture {
        crate::env::picture_of_text(&self.render())
    }
}

/// What one step of all agents led to.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiStep<'a> {
    /// One entry for each agent that acted, in their order.
    pub agents: &'a [AgentStep],
    /// Agents that joined in this step and act from the next one on.
    pub joined: &'a [AgentId],
}

/// One agent's part of a step. An agent that terminated or was truncated has left.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentStep {
    /// The agent that acted.
    pub agent: AgentId,
    /// The agent's observation after the step, its last one if it ended.
    pub obs: Vec<f32>,
    /// The agent's reward.
    pub reward: f64,
    /// The agent's task ended.
    pub terminated: bool,
    /// A limit outside the task stopped the agent: its learner bootstraps from `obs`.
    pub truncated: bool,
}
