//! An environment that does what a test asks: agents of given kinds and rewards, who leave on demand.
//! Its states are stated to be those of autoscaling, whatever is done.

use std::sync::{Arc, Mutex};

use homeostat_core::{AgentId, ControlSchema, Persist, SeedTree, Snapshot};
use homeostat_decide::{Features, ScalingAction};
use homeostat_env::{Action, AgentStep, Card, EnvSpec, MultiAgentEnv, MultiStep, Result, Space};
use homeostat_simppo::TaskType;

pub(crate) const TIME_LIMIT: u64 = 6;
const FEATURES: usize = 7;
const ACTIONS: usize = 7;

/// The environment.
#[derive(Clone)]
pub(crate) struct Stage {
    spec: EnvSpec,
    actors: Vec<Actor>,
    all_agents: Vec<AgentId>,
    /// Who leaves in the middle of every episode.
    pub(crate) deserter: Option<u32>,
    /// What was done, step by step.
    pub(crate) seen: Arc<Mutex<Vec<SeenStep>>>,
    seeds: SeedTree,
    elapsed: u64,
    alive: Vec<AgentId>,
    states: Vec<[f32; FEATURES]>,
    steps: Vec<AgentStep>,
}

/// For each agent its preservation before the step, and its action.
type SeenStep = Vec<(f32, usize)>;

/// One agent of the environment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Actor {
    pub(crate) number: u32,
    pub(crate) kind: TaskType,
    /// Of each step, whatever it does.
    pub(crate) reward: f64,
}

impl Stage {
    pub(crate) fn of(actors: &[Actor]) -> Self {
        Self {
            spec: EnvSpec {
                control: Some(
                    ControlSchema {
                        features: Features::schema(),
                        action: ScalingAction::schema(),
                        bounds: Vec::new(),
                    }
                    .into(),
                ),
                id: "test/stage-v1".parse().unwrap(),
                observation: Space::uniform_box(FEATURES, -1.0, 1.0),
                action: Space::Discrete(ACTIONS),
                time_limit: Some(TIME_LIMIT as u32),
                card: Card {
                    summary: "Agents who are paid a fixed wage.",
                    observation: Vec::new(),
                    action: Vec::new(),
                    reward: "fixed",
                    termination: "on demand",
                    source: "this test",
                },
            },
            actors: actors.to_vec(),
            all_agents: actors.iter().map(|actor| AgentId::new(actor.number)).collect(),
            deserter: None,
            seen: Arc::default(),
            seeds: SeedTree::new(0),
            elapsed: 0,
            alive: Vec::new(),
            states: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn show(&mut self) {
        let show = |agent: &AgentId| {
            let mut draws = self.seeds.stream(&format!("{agent}/{}", self.elapsed));
            std::array::from_fn(|_| draws.uniform() as f32)
        };
        self.states = self.alive.iter().map(show).collect();
    }

    fn actor(&self, agent: AgentId) -> &Actor {
        self.actors.iter().find(|actor| actor.number == agent.number()).unwrap()
    }
}

impl MultiAgentEnv for Stage {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn agents(&self) -> &[AgentId] {
        &self.alive
    }

    fn possible_agents(&self) -> Option<&[AgentId]> {
        Some(&self.all_agents)
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<()> {
        if let Some(seed) = seed {
            self.seeds = SeedTree::new(seed);
        }
        self.alive.clone_from(&self.all_agents);
        self.show();
        Ok(())
    }

    fn observation(&self, agent: AgentId) -> Option<&[f32]> {
        Some(&self.states[self.alive.binary_search(&agent).ok()?])
    }

    fn task(&self, agent: AgentId) -> Option<usize> {
        Some(self.actor(agent).kind as usize)
    }

    fn step(&mut self, actions: &[Action]) -> Result<MultiStep<'_>> {
        self.spec.require_actions(actions, self.alive.len())?;
        let done = self.states.iter().zip(actions);
        let done = done.map(|(state, action)| (state[0], action.discrete().unwrap()));
        self.seen.lock().unwrap().push(done.collect());
        self.elapsed += 1;
        self.show();
        let truncated = self.elapsed.is_multiple_of(TIME_LIMIT);
        let is_half = self.elapsed % TIME_LIMIT == TIME_LIMIT / 2;
        let steps = self.alive.iter().zip(&self.states).map(|(agent, state)| AgentStep {
            agent: *agent,
            obs: state.to_vec(),
            reward: self.actor(*agent).reward,
            terminated: is_half && self.deserter == Some(agent.number()),
            truncated,
        });
        self.steps = steps.collect();
        let stays = self.steps.iter().filter(|step| !step.terminated && !step.truncated);
        self.alive = stays.map(|step| step.agent).collect();
        self.show();
        Ok(MultiStep { agents: &self.steps, joined: &[] })
    }
}

impl Persist for Stage {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(&format!("{name}/elapsed"), [self.elapsed]);
        let alive: Vec<_> = self.alive.iter().map(|agent| u64::from(agent.number())).collect();
        out.put_u64(&format!("{name}/alive"), alive);
    }

    /// The seed is that of the reset before.
    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.elapsed = from.u64s(&format!("{name}/elapsed"), 1)?[0];
        let alive = from.any_u64s(&format!("{name}/alive"))?.iter();
        self.alive = alive.map(|number| AgentId::new(*number as u32)).collect();
        self.show();
        Ok(())
    }
}
