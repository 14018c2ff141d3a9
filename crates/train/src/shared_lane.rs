//! One copy of a shared world, with what its last step left for each agent.

use std::time::{Duration, Instant};

use homeostat_env::{Action, MultiAgentEnv};
use homeostat_lab::Result;
use homeostat_rl::Outcome;

use crate::episode_stats::TIMED_ONE_IN;

/// What one copy of the world hands to its agents and takes from them, row by row in the
/// order of those alive. It is apart from the world, so that all agents may read it at once.
pub(crate) struct LaneTable {
    width: usize,
    pub(crate) actions: Vec<Action>,
    outcomes: Vec<AgentOutcome>,
    /// What the last step led to, a row for each agent that acted.
    final_obs: Vec<f32>,
    /// What is seen now, a row for each agent alive.
    obs: Vec<f32>,
    /// Whether an agent came, went, or began an episode in the last step.
    pub(crate) has_changed: bool,
    pub(crate) failure: Option<homeostat_lab::Error>,
    /// Time that the world took in this round.
    pub(crate) time: Duration,
}

struct AgentOutcome {
    reward: f64,
    terminated: bool,
    truncated: bool,
}

impl LaneTable {
    /// The table of a world that was just reset or restored.
    pub(crate) fn new(world: &dyn MultiAgentEnv) -> Self {
        let mut this = Self {
            width: world.spec().observation.len(),
            actions: Vec::new(),
            outcomes: Vec::new(),
            final_obs: Vec::new(),
            obs: Vec::new(),
            has_changed: false,
            failure: None,
            time: Duration::ZERO,
        };
        this.look(world);
        this
    }

    /// Plays one step; an ended episode is followed by the next in the same step.
    pub(crate) fn play(&mut self, world: &mut dyn MultiAgentEnv, is_timed: bool) {
        let start = is_timed.then(Instant::now);
        self.failure = self.try_play(world).err();
        if let Some(start) = start {
            self.time += start.elapsed() * TIMED_ONE_IN as u32;
        }
    }

    fn try_play(&mut self, world: &mut dyn MultiAgentEnv) -> Result<()> {
        let step = world.step(&self.actions)?;
        self.has_changed = !step.joined.is_empty();
        self.outcomes.clear();
        self.final_obs.clear();
        for agent in step.agents {
            let (reward, terminated, truncated) = (agent.reward, agent.terminated, agent.truncated);
            self.has_changed |= terminated || truncated;
            self.outcomes.push(AgentOutcome { reward, terminated, truncated });
            self.final_obs.extend_from_slice(&agent.obs);
        }
        if world.agents().is_empty() {
            world.reset(None)?;
        }
        self.look(world);
        Ok(())
    }

    fn look(&mut self, world: &dyn MultiAgentEnv) {
        self.obs.clear();
        for agent in world.agents() {
            let obs = world.observation(*agent).expect("whoever is alive sees something");
            self.obs.extend_from_slice(obs);
        }
    }

    /// What came of the action of the agent that acted at `place`.
    pub(crate) fn outcome(&self, place: usize) -> Outcome<'_> {
        let AgentOutcome { reward, terminated, truncated } = self.outcomes[place];
        let next_obs = &self.final_obs[place * self.width..][..self.width];
        Outcome { reward, terminated, truncated, next_obs }
    }

    /// What the agent at `place` sees now.
    pub(crate) fn obs(&self, place: usize) -> &[f32] {
        &self.obs[place * self.width..][..self.width]
    }
}
