//! Several agents in one world, who may join and leave while it runs.

use homeostat_core::{AgentId, Persist};

use crate::{Action, EnvSpec, Info, Picture, Result};

/// A world that many agents share. All agents have the same spaces.
///
/// An episode is over when nobody is alive any more, at the latest when the time
/// limit has truncated all who were; a step is then refused until the next reset.
///
/// The order of [`MultiAgentEnv::agents`] is the order of everything else: of the
/// actions given to a step and of the observations read afterwards.
pub trait MultiAgentEnv: Persist + Send {
    /// Spaces (of one agent), limits and card.
    fn spec(&self) -> &EnvSpec;

    /// The agents alive now, ascending.
    fn agents(&self) -> &[AgentId];

    /// Every agent that may ever appear, where that is known.
    fn possible_agents(&self) -> Option<&[AgentId]>;

    /// Starts an episode; see [`crate::Env::reset`] for the seed.
    fn reset(&mut self, seed: Option<u64>) -> Result<()>;

    /// The present observation of `agent`, or nothing if it is not alive.
    fn observation(&self, agent: AgentId) -> Option<&[f32]>;

    /// Which task a living agent has, where the world tells: agents with the same task may
    /// share what they learn.
    fn task(&self, agent: AgentId) -> Option<usize> {
        let _ = agent;
        None
    }

    /// Plays one step with one action for each living agent, in their order.
    fn step(&mut self, actions: &[Action]) -> Result<MultiStep<'_>>;

    /// Further figures of the last step of an agent that is still there, or was when the time
    /// limit ended the episode; never for a policy.
    fn info(&self, agent: AgentId) -> Info {
        let _ = agent;
        Info::new()
    }

    /// A picture of the present state in text: of worlds that draw none, who is there.
    fn render(&self) -> String {
        let names: Vec<String> = self.agents().iter().map(ToString::to_string).collect();
        format!("{}\n{}\n", self.spec().id, names.join(" "))
    }

    /// A picture of the present state in shapes; of worlds that draw none, their text.
    fn picture(&self) -> Picture {
        crate::env::picture_of_text(&self.render())
    }
}

/// What one common step led to.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiStep<'a> {
    /// One entry for each agent that acted, in their order.
    pub agents: &'a [AgentStep],
    /// Agents that were born in this step and act from the next on.
    pub joined: &'a [AgentId],
}

/// What one agent had of a common step. An agent that ended is no longer alive.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentStep {
    /// Whose.
    pub agent: AgentId,
    /// The agent's observation after the step, its last one if it ended.
    pub obs: Vec<f32>,
    /// The agent's reward.
    pub reward: f64,
    /// The agent's task ended.
    pub terminated: bool,
    /// Somebody stopped the agent; its value goes on.
    pub truncated: bool,
}
