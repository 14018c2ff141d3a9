//! `faas/fleet-v3`, `faas/fleet-set-points-v1` and `faas/fleet-set-points-team-v1`: one agent for each
//! function on a common platform. Functions may come and go, and their agents with them. In the first,
//! agents observe utilisation and take one scaling step at a time [Table 4.1], each with a reward of its
//! own. In the others they choose set-points, and their reward is their share of all SLO violations; in
//! the last they also observe the virtual agent, so that a policy file reads its team where it serves.

use std::collections::BTreeMap;

use homeostat_core::{AgentId, Persist, Snapshot, Stream};
use homeostat_decide::{
    Observation, PodInterface, PreparedProposal, ScalingAction, TeamMember, TeamSnapshot,
};
use homeostat_env::{
    Action, AgentStep, EnvSpec, Info, MultiAgentEnv, MultiStep, Phase, Picture, Result,
};

use super::cards;
use super::config::FaasPlan;
use super::tenants::Tenants;
use super::{picture, text_view};
use crate::platform::Window;

/// Agents on a common platform. In every episode agents 0..n control the first n functions, or
/// those of a roster; an agent that joins later has a number that was never used.
pub struct Fleet {
    plan: FaasPlan,
    spec: EnvSpec,
    rng: Stream,
    phase: Phase,
    elapsed: u32,
    next_number: u32,
    tenants: Option<Tenants>,
    agents: Vec<AgentId>,
    /// The place in the catalogue of each agent's function.
    functions: Vec<usize>,
    control: Control,
    first_agents: Vec<AgentId>,
    first_functions: Vec<usize>,
    steps: Vec<AgentStep>,
    joined: Vec<AgentId>,
}

/// What agents see and do.
enum Control {
    /// Utilisation features and single steps [Table 4.1].
    Steps,
    SetPoints(Box<SetPointAgents>),
}

/// The agents alive that choose set-points, encoded as where their policies serve.
struct SetPointAgents {
    /// A new agent.
    fresh: SetPointAgent,
    present: Vec<SetPointAgent>,
}

/// One agent's set-points.
#[derive(Clone)]
struct SetPointAgent {
    interface: PodInterface,
    /// What the others see of it, if they do.
    member: Option<TeamMember>,
    obs: Vec<f32>,
}

impl SetPointAgents {
    fn new(plan: &FaasPlan, spec: &EnvSpec) -> Self {
        let schema = spec.control.as_ref().expect("an environment of pods states its schemas");
        let interface = PodInterface::for_schema(schema, plan.bounds)
            .expect("this version serves the schemas of its environments");
        let member = interface.needs_team().then(|| TeamMember::new(plan.bounds));
        let fresh = SetPointAgent { interface, member, obs: vec![0.0; spec.observation.len()] };
        Self { fresh, present: Vec::new() }
    }

    /// Shows every agent an observation. `seen` has one for each.
    fn observe<'a>(&mut self, seen: impl Iterator<Item = &'a Observation> + Clone) {
        let states: BTreeMap<usize, _> = self
            .present
            .iter_mut()
            .zip(seen.clone())
            .enumerate()
            .filter_map(|(place, (agent, obs))| Some((place, agent.member.as_mut()?.observe(obs))))
            .collect();
        let team = (!states.is_empty()).then(|| TeamSnapshot::new(states));
        for (place, (agent, obs)) in self.present.iter_mut().zip(seen).enumerate() {
            match &team {
                None => agent.interface.observe(obs, &mut agent.obs),
                Some(team) => {
                    let obs = Observation { team: Some(team.others(&place)), ..obs.clone() };
                    agent.interface.observe(&obs, &mut agent.obs);
                }
            }
        }
    }
}

impl Fleet {
    /// Agents that take one scaling step at a time [Table 4.1].
    pub fn with_steps(plan: FaasPlan) -> Self {
        let spec = cards::fleet(&plan.config);
        Self::new(plan, spec, Control::Steps)
    }

    /// Agents that choose set-points.
    pub fn with_set_points(plan: FaasPlan) -> Self {
        Self::of_set_points(cards::set_point_fleet(&plan.config), plan)
    }

    /// Agents that choose set-points and observe the others of their team.
    pub fn with_team_set_points(plan: FaasPlan) -> Self {
        Self::of_set_points(cards::set_point_team_fleet(&plan.config), plan)
    }

    fn of_set_points(spec: EnvSpec, plan: FaasPlan) -> Self {
        let control = Control::SetPoints(Box::new(SetPointAgents::new(&plan, &spec)));
        Self::new(plan, spec, control)
    }

    fn new(plan: FaasPlan, spec: EnvSpec, control: Control) -> Self {
        let count = plan.config.functions as u32;
        let catalogue = plan.profiles.len();
        Self {
            spec,
            rng: Stream::from_seed(0),
            phase: Phase::New,
            elapsed: 0,
            next_number: count,
            tenants: None,
            agents: Vec::new(),
            functions: Vec::new(),
            control,
            first_agents: (0..count).map(AgentId::new).collect(),
            first_functions: (0..count as usize).map(|number| number % catalogue).collect(),
            steps: Vec::new(),
            joined: Vec::new(),
            plan,
        }
    }

    /// The same with these agents at first, ascending, each with the place of its function in
    /// the catalogue.
    pub fn with_roster(mut self, roster: &[(AgentId, usize)]) -> Self {
        let catalogue = self.plan.profiles.len();
        self.first_agents = roster.iter().map(|(agent, _)| *agent).collect();
        self.first_functions = roster.iter().map(|(_, function)| function % catalogue).collect();
        self.next_number = roster.last().map_or(0, |(agent, _)| agent.number() + 1);
        self
    }

    /// The platform and its functions, once an episode has begun: in the order of the agents
    /// that acted last.
    pub fn tenants(&self) -> Option<&Tenants> {
        self.tenants.as_ref()
    }

    /// Adds a function and the set-points of its agent.
    fn welcome(&mut self, function: usize, agent: AgentId) {
        let tenants = self.tenants.as_mut().expect("a running episode has a platform");
        tenants.join(function);
        self.agents.push(agent);
        self.functions.push(function);
        if let Control::SetPoints(agents) = &mut self.control {
            // Before its first window a function is seen as it was made.
            let id = tenants.present.last().expect("it has just joined").id;
            let made = tenants.platform.close_window(id).observation;
            let mut agent = agents.fresh.clone();
            agent.interface.observe(&made, &mut agent.obs);
            agents.present.push(agent);
        }
    }

    /// Updates the set-points of every agent with what monitoring saw of the last window.
    fn show(&mut self) {
        let Control::SetPoints(agents) = &mut self.control else { return };
        let tenants = self.tenants.as_ref().expect("a running episode has a platform");
        agents.observe((0..tenants.present.len()).map(|place| tenants.seen(place)));
    }

    fn obs_at(&self, place: usize) -> &[f32] {
        match &self.control {
            Control::Steps => {
                &self.tenants.as_ref().expect("a running episode has a platform").present[place].obs
            }
            Control::SetPoints(agents) => &agents.present[place].obs,
        }
    }

    fn act(&mut self, place: usize, action: &Action) {
        let tenants = self.tenants.as_mut().expect("a running episode has a platform");
        match &mut self.control {
            Control::Steps => {
                let index = action.discrete().expect("the action is of the space");
                let action = ScalingAction::from_index(index).expect("the action is of the space");
                tenants.act(place, action);
            }
            Control::SetPoints(agents) => {
                let Action::MultiDiscrete(choices) = action else { return };
                let choices = [choices[0] as f32, choices[1] as f32];
                let agent = &mut agents.present[place];
                let proposal = agent.interface.propose(&choices, tenants.seen(place));
                let mut chosen = PreparedProposal::new(proposal);
                tenants.control(place, &mut chosen).expect("bounds keep CPU above zero");
            }
        }
    }

    /// The rewards of all agents for the last window.
    fn rewards(&self) -> Vec<f64> {
        let tenants = self.tenants.as_ref().expect("a running episode has a platform");
        let places = 0..self.agents.len();
        match &self.control {
            Control::Steps => places.map(|place| tenants.reward(place)).collect(),
            Control::SetPoints(_) => {
                let windows: Vec<_> = places
                    .map(|place| tenants.window(place).expect("a window was played"))
                    .collect();
                late_and_priced(&windows, self.plan.config.container_price)
            }
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
            let place = self.rng.below(self.agents.len());
            let function = self.rng.below(self.plan.profiles.len());
            let leaver = self.agents.remove(place);
            self.functions.remove(place);
            if let Control::SetPoints(agents) = &mut self.control {
                agents.present.remove(place);
            }
            let tenants = self.tenants.as_mut().expect("a running episode has a platform");
            tenants.leave(place);
            let newcomer = AgentId::new(self.next_number);
            self.next_number += 1;
            self.welcome(function, newcomer);
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
            self.next_number = self.first_agents.last().map_or(0, |agent| agent.number() + 1);
        }
        self.tenants = Some(Tenants::new(&self.plan, self.rng.next_u64()));
        self.agents.clear();
        self.functions.clear();
        if let Control::SetPoints(agents) = &mut self.control {
            agents.present.clear();
        }
        for place in 0..self.first_agents.len() {
            self.welcome(self.first_functions[place], self.first_agents[place]);
        }
        self.tenants.as_mut().expect("it was just made").advance();
        self.show();
        self.joined.clear();
        self.steps.clear();
        self.phase = Phase::Running;
        self.elapsed = 0;
        Ok(())
    }

    fn observation(&self, agent: AgentId) -> Option<&[f32]> {
        let place = self.agents.binary_search(&agent).ok()?;
        Some(self.obs_at(place))
    }

    fn task(&self, agent: AgentId) -> Option<usize> {
        Some(self.functions[self.agents.binary_search(&agent).ok()?])
    }

    fn step(&mut self, actions: &[Action]) -> Result<MultiStep<'_>> {
        self.phase.require_running(&self.spec.id)?;
        self.spec.require_actions(actions, self.agents.len())?;
        for (place, action) in actions.iter().enumerate() {
            self.act(place, action);
        }
        self.tenants.as_mut().expect("a running episode has a platform").advance();
        self.show();
        self.elapsed += 1;
        let truncated = self.elapsed >= self.plan.config.steps;
        self.steps.clear();
        self.joined.clear();
        for (place, reward) in self.rewards().into_iter().enumerate() {
            self.steps.push(AgentStep {
                agent: self.agents[place],
                obs: self.obs_at(place).to_vec(),
                reward,
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

/// Requests that were late, over the mean number of requests of a function: the mean over all
/// agents is the part of all requests. Then a price for each container, as a part of requests.
fn late_and_priced(windows: &[&Window], price: f64) -> Vec<f64> {
    let settled = |window: &Window| window.completed + window.timed_out + window.failed;
    let all: u64 = windows.iter().map(|window| settled(window)).sum();
    let mean = (all as f64 / windows.len().max(1) as f64).max(1.0);
    let containers = |window: &Window| {
        window.container_s / window.observation.window.seconds().max(f64::MIN_POSITIVE)
    };
    windows
        .iter()
        .map(|window| -(window.slo_violations as f64 / mean) - price * containers(window))
        .collect()
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
        let functions: Vec<u64> = self.functions.iter().map(|function| *function as u64).collect();
        out.put_u64(&format!("{name}/functions"), functions);
        if let Control::SetPoints(agents) = &self.control {
            for (place, agent) in agents.present.iter().enumerate() {
                let name = format!("{name}/set-points/{place}");
                agent.interface.save(&name, out);
                agent.member.iter().for_each(|one| one.save(&format!("{name}/member"), out));
                out.put_f32(&format!("{name}/obs"), agent.obs.clone());
            }
        }
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
        let catalogue = self.plan.profiles.len();
        let functions = from.any_u64s(&format!("{name}/functions"))?;
        self.functions = functions.iter().map(|function| *function as usize % catalogue).collect();
        self.tenants = None;
        if clock[3] != 0 {
            let mut tenants = Tenants::new(&self.plan, 0);
            tenants.load(&format!("{name}/tenants"), from)?;
            self.tenants = Some(tenants);
        }
        if let Control::SetPoints(agents) = &mut self.control {
            agents.present = vec![agents.fresh.clone(); self.functions.len()];
            for (place, agent) in agents.present.iter_mut().enumerate() {
                let name = format!("{name}/set-points/{place}");
                agent.interface.load(&name, from)?;
                if let Some(member) = &mut agent.member {
                    member.load(&format!("{name}/member"), from)?;
                }
                from.copy_f32s(&format!("{name}/obs"), &mut agent.obs)?;
            }
        }
        Ok(())
    }
}
