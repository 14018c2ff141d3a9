//! An environment that takes no time and no memory worth counting, to measure what agents cost.

use homeostat_core::{AgentId, Persist, Snapshot, Stream};
use homeostat_decide::Features;
use homeostat_env::{Action, AgentStep, EnvSpec, MultiAgentEnv, MultiStep};

/// Random observations of utilisation [Table 4.1], whatever agents do.
pub(super) struct IdleEnv {
    spec: EnvSpec,
    all_agents: Vec<AgentId>,
    alive: Vec<AgentId>,
    states: Vec<f32>,
    last: Vec<AgentStep>,
    rng: Stream,
    elapsed: u32,
    steps: u32,
}

impl IdleEnv {
    pub(super) fn new(spec: EnvSpec, agents: usize, steps: u32) -> Self {
        let all_agents = (0..agents as u32).map(AgentId::new).collect();
        let rng = Stream::from_seed(1);
        let (alive, states, last) = (Vec::new(), Vec::new(), Vec::new());
        Self { spec, all_agents, alive, states, last, rng, elapsed: 0, steps }
    }

    fn draw(&mut self) {
        let Self { states, all_agents, rng, .. } = self;
        states.clear();
        states.extend((0..all_agents.len() * Features::COUNT).map(|_| rng.uniform() as f32));
    }
}

impl MultiAgentEnv for IdleEnv {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn agents(&self) -> &[AgentId] {
        &self.alive
    }

    fn possible_agents(&self) -> Option<&[AgentId]> {
        Some(&self.all_agents)
    }

    fn reset(&mut self, _: Option<u64>) -> homeostat_env::Result<()> {
        self.alive.clone_from(&self.all_agents);
        self.elapsed = 0;
        self.draw();
        Ok(())
    }

    fn observation(&self, agent: AgentId) -> Option<&[f32]> {
        let place = self.alive.binary_search(&agent).ok()?;
        Some(&self.states[place * Features::COUNT..][..Features::COUNT])
    }

    fn step(&mut self, _: &[Action]) -> homeostat_env::Result<MultiStep<'_>> {
        self.draw();
        self.elapsed += 1;
        let truncated = self.elapsed >= self.steps;
        let rows = self.states.chunks_exact(Features::COUNT);
        self.last.clear();
        self.last.extend(self.all_agents.iter().zip(rows).map(|(agent, state)| AgentStep {
            agent: *agent,
            obs: state.to_vec(),
            reward: f64::from(state[0]),
            terminated: false,
            truncated,
        }));
        if truncated {
            self.alive.clear();
        }
        Ok(MultiStep { agents: &self.last, joined: &[] })
    }
}

impl Persist for IdleEnv {
    fn save(&self, _: &str, _: &mut Snapshot) {}

    fn load(&mut self, _: &str, _: &Snapshot) -> homeostat_core::Result<()> {
        Ok(())
    }
}
