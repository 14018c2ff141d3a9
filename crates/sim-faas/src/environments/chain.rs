//! `faas/chain-v2`: one agent for each function of chains with end-to-end SLOs. All
//! agents of a chain are rewarded for the same SLO, and each for what it uses itself.

use homeostat_core::{AgentId, Persist, Snapshot, Stream};
use homeostat_decide::ScalingAction;
use homeostat_env::{
    Action, AgentStep, EnvSpec, Info, MultiAgentEnv, MultiStep, Phase, Picture, Result,
};

use super::cards;
use super::config::FaasPlan;
use super::tenants::Tenants;
use super::{picture, text_view};

/// Agents on the stages of chains: agent k has the k-th stage, chain after chain.
pub struct Chains {
    plan: FaasPlan,
    spec: EnvSpec,
    rng: Stream,
    phase: Phase,
    elapsed: u32,
    tenants: Option<Tenants>,
    /// All agents during an episode, none outside.
    agents: Vec<AgentId>,
    possible_agents: Vec<AgentId>,
    steps: Vec<AgentStep>,
}

impl Chains {
    /// The plan must be one with chains.
    pub(crate) fn new(plan: FaasPlan) -> Self {
        let count = plan.profiles.len() as u32;
        Self {
            spec: cards::chain(&plan.config),
            rng: Stream::from_seed(0),
            phase: Phase::New,
            elapsed: 0,
            tenants: None,
            agents: Vec::new(),
            possible_agents: (0..count).map(AgentId::new).collect(),
            steps: Vec::new(),
            plan,
        }
    }
}

impl MultiAgentEnv for Chains {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn agents(&self) -> &[AgentId] {
        &self.agents
    }

    fn possible_agents(&self) -> Option<&[AgentId]> {
        Some(&self.possible_agents)
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<()> {
        if let Some(seed) = seed {
            self.rng = Stream::from_seed(seed);
        }
        let mut tenants = Tenants::with_chains(&self.plan, self.rng.next_u64())
            .expect("a plan with chains has profiled them");
        tenants.advance();
        self.tenants = Some(tenants);
        self.agents.clone_from(&self.possible_agents);
        self.steps.clear();
        self.phase = Phase::Running;
        self.elapsed = 0;
        Ok(())
    }

    fn observation(&self, agent: AgentId) -> Option<&[f32]> {
        let place = self.agents.binary_search(&agent).ok()?;
        Some(self.tenants.as_ref()?.stage_features(place))
    }

    fn task(&self, agent: AgentId) -> Option<usize> {
        self.agents.binary_search(&agent).ok()
    }

    fn step(&mut self, actions: &[Action]) -> Result<MultiStep<'_>> {
        self.phase.require_running(&self.spec.id)?;
        self.spec.require_actions(actions, self.agents.len())?;
        let tenants = self.tenants.as_mut().expect("a running episode has a platform");
        for (place, action) in actions.iter().enumerate() {
            let index = action.discrete().expect("the action is of the space");
            let action = ScalingAction::from_index(index).expect("the action is of the space");
            tenants.act(place, action);
        }
        tenants.advance();
        self.elapsed += 1;
        let truncated = self.elapsed >= self.plan.config.steps;
        self.steps.clear();
        self.steps.extend(self.agents.iter().enumerate().map(|(place, agent)| AgentStep {
            agent: *agent,
            obs: tenants.stage_features(place).to_vec(),
            reward: tenants.reward(place),
            terminated: false,
            truncated,
        }));
        if truncated {
            self.phase = Phase::Ended;
            self.agents.clear();
        }
        Ok(MultiStep { agents: &self.steps, joined: &[] })
    }

    fn info(&self, agent: AgentId) -> Info {
        let place = match self.phase {
            // No agent is left: the order is that of the agents that acted last.
            Phase::Ended => self.steps.iter().position(|step| step.agent == agent),
            _ => self.agents.binary_search(&agent).ok(),
        };
        super::info_at(self.tenants.as_ref(), place)
    }

    fn render(&self) -> String {
        self.tenants.as_ref().map_or(String::new(), text_view::draw)
    }

    fn picture(&self) -> Picture {
        picture::draw_or_ask_for_a_reset(self.tenants.as_ref())
    }
}

impl Persist for Chains {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rng.save(&format!("{name}/rng"), out);
        let is_made = u64::from(self.tenants.is_some());
        let clock = [self.phase.to_number(), u64::from(self.elapsed), is_made];
        out.put_u64(&format!("{name}/clock"), clock);
        if let Some(tenants) = &self.tenants {
            tenants.save(&format!("{name}/tenants"), out);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.rng.load(&format!("{name}/rng"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 3)?;
        self.phase = Phase::from_number(clock[0]);
        self.elapsed = clock[1] as u32;
        self.agents.clear();
        if self.phase == Phase::Running {
            self.agents.clone_from(&self.possible_agents);
        }
        self.tenants = None;
        if clock[2] != 0 {
            // Every stage, or the chains could not be laid again.
            from.u64s(&format!("{name}/tenants/added"), self.possible_agents.len())?;
            let mut tenants = Tenants::new(&self.plan, 0);
            tenants.load(&format!("{name}/tenants"), from)?;
            self.tenants = Some(tenants);
        }
        Ok(())
    }
}
