//! `faas/fleet-v1`: one agent for each function on a common platform. Functions may come and
//! go, and their agents with them.

use homeostat_core::{AgentId, Persist, Snapshot, Stream};
use homeostat_decide::ScalingAction;
use homeostat_env::{Action, AgentStep, EnvSpec, MultiAgentEnv, MultiStep, Phase, Result};

use super::cards;
use super::config::FaasPlan;
use super::tenants::Tenants;

/// Agents on a common platform. In every episode agents 0..n control the first n functions;
/// whoever joins later has a number that was never used.
pub struct Fleet {
    plan: FaasPlan,
    spec: EnvSpec,
    rng: Stream,
    phase: Phase,
    elapsed: u32,
    next_number: u32,
    tenants: Option<Tenants>,
    agents: Vec<AgentId>,
    first_agents: Vec<AgentId>,
    steps: Vec<AgentStep>,
    joined: Vec<AgentId>,
}

impl Fleet {
    pub(crate) fn new(plan: FaasPlan) -> Self {
        let count = plan.config.functions as u32;
        Self {
            spec: cards::fleet(&plan.config),
            rng: Stream::from_seed(0),
            phase: Phase::New,
            elapsed: 0,
            next_number: count,
            tenants: None,
            agents: Vec::new(),
            first_agents: (0..count).map(AgentId::new).collect(),
            steps: Vec::new(),
            joined: Vec::new(),
            plan,
        }
    }

    /// How many functions leave in this step.
    fn leavers(&mut self) -> usize {
        let churn = self.plan.config.churn;
        let whole = churn.floor();
        whole as usize + usize::from(self.rng.uniform() < churn - whole)
    }

    /// Functions that leave, each followed by another of the catalogue.
    fn churn(&mut self) {
        for _ in 0..self.leavers().min(self.agents.len().saturating_sub(1)) {
            let tenants = self.tenants.as_mut().expect("a running episode has a platform");
            let place = self.rng.below(self.agents.len());
            let function = self.rng.below(self.plan.profiles.len());
            let leaver = self.agents.remove(place);
            tenants.leave(place);
            tenants.join(function);
            let newcomer = AgentId::new(self.next_number);
            self.next_number += 1;
            self.agents.push(newcomer);
            self.joined.push(newcomer);
            // Its function is gone: nothing is to be had beyond this step.
            let step = self.steps.iter_mut().find(|step| step.agent == leaver);
            match step {
                Some(step) => step.terminated = true,
                // It came and went within one step.
                None => self.joined.retain(|agent| *agent != leaver),
            }
        }
    }
}

impl MultiAgentEnv for Fleet {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn agents(&self) -> &[AgentId] {
        &self.agents
    }

    fn possible_agents(&self) -> Option<&[AgentId]> {
        (self.plan.config.churn == 0.0).then_some(&self.first_agents)
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<()> {
        if let Some(seed) = seed {
            self.rng = Stream::from_seed(seed);
            self.next_number = self.first_agents.len() as u32;
        }
        let mut tenants = Tenants::new(&self.plan, self.rng.next_u64());
        for function in 0..self.first_agents.len() {
            tenants.join(function % self.plan.profiles.len());
        }
        tenants.advance();
        self.tenants = Some(tenants);
        self.agents.clone_from(&self.first_agents);
        self.joined.clear();
        self.steps.clear();
        self.phase = Phase::Running;
        self.elapsed = 0;
        Ok(())
    }

    fn observation(&self, agent: AgentId) -> Option<&[f32]> {
        let place = self.agents.binary_search(&agent).ok()?;
        Some(&self.tenants.as_ref()?.present[place].obs)
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
        self.joined.clear();
        for (place, agent) in self.agents.iter().enumerate() {
            self.steps.push(AgentStep {
                agent: *agent,
                obs: tenants.present[place].obs.to_vec(),
                reward: tenants.reward(place),
                terminated: false,
                truncated,
            });
        }
        if truncated {
            self.phase = Phase::Ended;
            self.agents.clear();
        } else {
            self.churn();
        }
        Ok(MultiStep { agents: &self.steps, joined: &self.joined })
    }
}

impl Persist for Fleet {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rng.save(&format!("{name}/rng"), out);
        let clock = [
            self.phase.to_number(),
            u64::from(self.elapsed),
            u64::from(self.next_number),
            u64::from(self.tenants.is_some()),
        ];
        out.put_u64(&format!("{name}/clock"), clock);
        let agents: Vec<u64> = self.agents.iter().map(|agent| u64::from(agent.number())).collect();
        out.put_u64(&format!("{name}/agents"), agents);
        if let Some(tenants) = &self.tenants {
            tenants.save(&format!("{name}/tenants"), out);
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.rng.load(&format!("{name}/rng"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 4)?;
        self.phase = Phase::from_number(clock[0]);
        [self.elapsed, self.next_number] = [clock[1] as u32, clock[2] as u32];
        let agents = from.any_u64s(&format!("{name}/agents"))?;
        self.agents = agents.iter().map(|number| AgentId::new(*number as u32)).collect();
        self.tenants = None;
        if clock[3] != 0 {
            let mut tenants = Tenants::new(&self.plan, 0);
            tenants.load(&format!("{name}/tenants"), from)?;
            self.tenants = Some(tenants);
        }
        Ok(())
    }
}
