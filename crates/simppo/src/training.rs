//! The multi-agent runtime: copies of one shared environment, the agents in it, and their
//! learners, which they share or do not share.
//!
//! A step is two parallel loops: over the copies of the environment, which play, and over the
//! learners, which record the outcome, learn and choose the next actions. Neither reads what the
//! other writes, so the outcome does not depend on the number of threads.

use homeostat_core::{AgentId, SeedTree, Snapshot};
use homeostat_env::{EnvSpec, MultiAgentEnv, ServiceTotals};
use homeostat_nn::Kernel;
use homeostat_rl::{AlgorithmConfig, Policy, PpoConfig, for_each_agent, for_each_agent_of};
use rayon::prelude::*;

use crate::bases::Bases;
use crate::member::{Member, Running};
use crate::net::{Form, Net, Origin, Seat};
use crate::outlook::{StateLayout, width_of};
use crate::seat_table::{Rules, SeatTable};
use crate::{CriticInput, Error, Method, Order, ParameterSharing, Result, RewardSharing, TaskType};

/// What a training is made of.
#[derive(Debug, Clone)]
pub struct TeamConfig {
    /// How its agents learn.
    pub learners: Learners,
    /// The type of each task.
    pub task_types: Vec<TaskType>,
    /// The processor's instructions to use.
    pub kernel: Kernel,
    /// Everything random follows from it.
    pub seed: u64,
    /// Steps of the whole training, for schedules.
    pub total_steps: u64,
}

/// How the agents of a shared environment learn.
#[derive(Debug, Clone)]
pub enum Learners {
    /// As a team: the method says how rewards, critics' inputs and networks are shared.
    Coordinated {
        /// How they are coordinated.
        method: Method,
        /// How each network learns. The minibatch is for one agent in one environment: a network
        /// that plays for several takes so many times as many, and as many gradient steps.
        ppo: PpoConfig,
    },
    /// Each by itself, with any algorithm: its own reward, observation and learner.
    Independent(AlgorithmConfig),
}

impl Learners {
    /// How they are coordinated; independent learners are not.
    fn method(&self) -> Method {
        match self {
            Self::Coordinated { method, .. } => method.clone(),
            Self::Independent(algorithm) => Method {
                reward_sharing: RewardSharing::Own,
                critic_input: CriticInput::Local,
                parameter_sharing: ParameterSharing::None,
                order: Order::Together,
                num_envs: algorithm.num_envs(),
            },
        }
    }
}

/// Agents that learn in one shared environment.
pub struct Training {
    config: TeamConfig,
    rules: Rules,
    spec: EnvSpec,
    seeds: SeedTree,
    envs: Vec<Box<dyn MultiAgentEnv>>,
    /// One for each environment.
    tables: Vec<SeatTable>,
    /// The agents of a fresh environment.
    founders: Vec<AgentId>,
    /// Those alive, ordered.
    members: Vec<Member>,
    /// Founders that left: the next episode brings them back, with what they have learnt.
    away: Vec<Member>,
    nets: Vec<Net>,
    bases: Bases,
    /// Steps that the agents have played.
    step: u64,
    /// How often the environments were replaced.
    generation: u64,
    finished: Vec<Finished>,
}

/// A finished episode of one agent in one copy of the environment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finished {
    /// Whose.
    pub agent: AgentId,
    /// Which copy.
    pub env: usize,
    /// Sum of the environment's rewards.
    pub own_return: f64,
    /// Sum of the rewards after sharing, which it learnt from.
    pub shared_return: f64,
    /// Steps.
    pub length: u32,
}

/// An agent that left for good.
#[derive(Debug, Clone)]
pub struct Departed {
    /// Who.
    pub agent: AgentId,
    /// What it had learnt, or why its network had stopped.
    pub policy: Result<Policy, String>,
}

/// The parts of a step, for measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Learners chose.
    Choosing,
    /// Environments played.
    Playing,
    /// Learners recorded the outcome, and some were updated.
    Learning,
}

/// Learners that make a task where each has a microsecond of work: a thread takes longer to
/// wake.
const QUICK: usize = 32;

impl Training {
    /// Fresh agents in environments from `make`.
    pub fn new(
        config: &TeamConfig,
        make: &dyn Fn() -> Result<Box<dyn MultiAgentEnv>>,
    ) -> Result<Self> {
        let method = config.learners.method();
        method.validate()?;
        let spec = make()?.spec().clone();
        let width = spec.observation.len();
        let layout = StateLayout::of(&spec);
        if method.order == Order::Queue && layout == StateLayout::Unknown {
            return Err(Error::Setting {
                setting: "simppo.order",
                need: format!("together, since {} does not say how well SLOs are met", spec.id),
                value: "queue".to_owned(),
            });
        }
        let rules = Rules {
            layout,
            width,
            extra: width_of(method.critic_input, width),
            task_types: config.task_types.clone(),
            per: 1.0,
            hold: spec.action.hold(),
            method,
        };
        let mut this = Self {
            rules,
            spec,
            seeds: SeedTree::new(config.seed),
            envs: Vec::new(),
            tables: Vec::new(),
            founders: Vec::new(),
            members: Vec::new(),
            away: Vec::new(),
            nets: Vec::new(),
            bases: Bases::default(),
            step: 0,
            generation: 0,
            finished: Vec::new(),
            config: config.clone(),
        };
        this.replace_envs(make)?;
        Ok(this)
    }

    /// Replaces every copy of the environment: agents of functions that came or went come or go
    /// with them, the others go on with what they have learnt.
    pub fn replace_envs(
        &mut self,
        make: &dyn Fn() -> Result<Box<dyn MultiAgentEnv>>,
    ) -> Result<()> {
        // Independent learners never had their environments replaced.
        let is_first =
            matches!(self.config.learners, Learners::Independent(_)) && self.generation == 0;
        let seeds = env_seeds(self.config.seed, (!is_first).then_some(self.generation));
        let mut envs = Vec::new();
        for number in 0..self.rules.method.num_envs {
            let mut env = make()?;
            env.reset(Some(seeds.seed(&format!("lane/{number}"))))?;
            envs.push(env);
        }
        if self.generation == 0 {
            // Sums are measured against the team as it began, so that growth can be seen.
            self.rules.per = envs[0].agents().len().max(2) as f64 - 1.0;
        }
        self.generation += 1;
        self.founders = envs[0].agents().to_vec();
        self.tables = envs.iter().map(|env| SeatTable::new(env.as_ref(), &self.rules)).collect();
        self.envs = envs;
        let all = self.members.iter_mut().chain(&mut self.away);
        all.for_each(|member| member.running.fill(Running::default()));
        self.seat_all_agents().map(drop)
    }

    /// One step of every agent in every copy of the environment. Returns the agents that left for
    /// good.
    pub fn step(&mut self) -> Result<Vec<Departed>> {
        self.step_in_parts(&mut |_| {})
    }

    /// [`Training::step`] that says when each of its parts is done.
    pub fn step_in_parts(&mut self, done: &mut (dyn FnMut(Part) + Send)) -> Result<Vec<Departed>> {
        // From here on rayon's threads hand work to one another; from outside, each loop would
        // wake one and wait for it.
        rayon::scope(|_| self.step_inside(done))
    }

    fn step_inside(&mut self, done: &mut (dyn FnMut(Part) + Send)) -> Result<Vec<Departed>> {
        self.choose();
        self.scatter();
        done(Part::Choosing);
        let Self { tables, envs, rules, .. } = self;
        let pairs = envs.par_iter_mut().zip(tables.par_iter_mut());
        pairs.for_each(|(env, table)| table.play(env.as_mut(), rules));
        // The first in their order, whichever thread came first.
        if let Some(failure) = tables.iter_mut().find_map(|table| table.failure.take()) {
            return Err(failure);
        }
        done(Part::Playing);
        self.step += self.rules.method.num_envs as u64;
        self.take_in();
        self.count_episodes();
        let has_changed = self.tables.iter().any(|table| table.has_changed);
        let departed = if has_changed { self.seat_all_agents()? } else { Vec::new() };
        done(Part::Learning);
        Ok(departed)
    }

    /// Plays until an episode has ended in every copy of the environment.
    pub fn episode(&mut self) -> Result<Vec<Finished>> {
        self.finished.clear();
        rayon::scope(|_| -> Result<()> {
            let mut is_over = vec![false; self.tables.len()];
            while is_over.contains(&false) {
                self.step_inside(&mut |_| {})?;
                let ends = self.tables.iter().map(SeatTable::begins);
                is_over.iter_mut().zip(ends).for_each(|(is_over, ends)| *is_over |= ends);
            }
            Ok(())
        })?;
        Ok(std::mem::take(&mut self.finished))
    }

    /// Episodes that have ended since the last time this was asked.
    pub fn take_finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// Every learner chooses for its seats.
    fn choose(&mut self) {
        let Self { tables, rules, nets, config, .. } = self;
        let (tables, rules) = (&*tables, &*rules);
        for_each_agent_of(config.kernel, QUICK, nets, |net, workspace| {
            net.choose(tables, rules, workspace);
        });
    }

    /// Hands the choices to the environments; a seat without a choice holds.
    fn scatter(&mut self) {
        let Self { tables, rules, nets, .. } = self;
        tables.iter_mut().for_each(|table| table.hold(rules));
        for net in nets.iter_mut().filter(|net| net.stopped.is_none()) {
            for (number, action) in net.chosen.iter().zip(&mut net.actions) {
                let seat = &net.seats[*number];
                // Swapped rather than copied: an action may own memory.
                std::mem::swap(&mut tables[seat.env].actions[seat.place], action);
            }
        }
    }

    /// Every learner records the outcome of its choices, and learns if it has seen enough.
    fn take_in(&mut self) {
        let Self { tables, rules, nets, config, .. } = self;
        let (tables, rules, total_steps) = (&*tables, &*rules, config.total_steps);
        for_each_agent_of(config.kernel, QUICK, nets, |net, workspace| {
            net.take_in(tables, rules, workspace);
        });
        if nets.iter().any(Net::is_due) {
            for_each_agent(config.kernel, nets, |net, workspace| {
                if net.is_due() {
                    net.learn(total_steps, workspace);
                }
            });
        }
    }

    /// Counts rewards and episodes; base models follow the best agent of their type.
    fn count_episodes(&mut self) {
        let Self { tables, members, finished, .. } = self;
        let mut has_ended = false;
        for (env, table) in tables.iter().enumerate() {
            for last in &table.last {
                let found = members.binary_search_by_key(&last.agent, |member| member.agent);
                let Ok(index) = found else { continue };
                let running = &mut members[index].running[env];
                running.own += last.own;
                running.shared += last.shared;
                running.length += 1;
                // An agent that merely waits for its turn is not at the end of its episode.
                let is_over = table.agents.binary_search(&last.agent).is_err() || table.begins();
                if !is_over {
                    continue;
                }
                has_ended = true;
                let Running { own, shared, length } = members[index].finish(env);
                let (agent, own_return, shared_return) = (last.agent, own, shared);
                finished.push(Finished { agent, env, own_return, shared_return, length });
            }
        }
        if has_ended && self.rules.method.parameter_sharing == ParameterSharing::Base {
            self.update_bases();
        }
    }

    fn update_bases(&mut self) {
        for task_type in TaskType::ALL {
            let of_task_type = self.members.iter().filter(|member| member.task_type == task_type);
            let sound = of_task_type.filter(|member| self.nets[member.net].stopped.is_none());
            let ranked = sound.filter_map(|member| Some((member.mean_reward()?, member.net)));
            let best = ranked.max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some(ppo) = best.and_then(|(_, net)| self.nets[net].ppo()) {
                self.bases.follow(task_type, ppo);
            }
        }
    }

    /// Gives every living agent a seat; newcomers get learners, leavers give theirs back.
    fn seat_all_agents(&mut self) -> Result<Vec<Departed>> {
        let present = self.tables[0].agents.clone();
        if self.tables[1..].iter().any(|table| table.agents != present) {
            return Err(Error::Apart);
        }
        // Leavers first, so that the rows of their learners are free.
        let is_absent = |member: &mut Member| present.binary_search(&member.agent).is_err();
        let leavers: Vec<Member> = self.members.extract_if(.., is_absent).collect();
        self.away.extend(leavers);
        let departed = self.dismiss();
        for (place, agent) in present.iter().enumerate() {
            if let Err(index) = self.members.binary_search_by_key(agent, |member| member.agent) {
                let returned = self.away.iter().position(|member| member.agent == *agent);
                let member = match returned {
                    Some(place) => self.away.swap_remove(place),
                    None => self.raise(*agent, self.tables[0].task_types[place], present.len())?,
                };
                self.members.insert(index, member);
            }
        }
        self.away.sort_unstable_by_key(|member| member.agent);
        self.nets.iter_mut().for_each(|net| net.seats.clear());
        for (place, member) in self.members.iter().enumerate() {
            for (env, row) in member.rows.iter().enumerate() {
                self.nets[member.net].seats.push(Seat { env, place, row: *row });
            }
        }
        self.let_go();
        Ok(departed)
    }

    /// Parts with those away that no episode brings back: their rows are free.
    fn dismiss(&mut self) -> Vec<Departed> {
        let Self { away, founders, nets, .. } = self;
        let is_gone = |member: &mut Member| founders.binary_search(&member.agent).is_err();
        let mut departed = Vec::new();
        for member in away.extract_if(.., is_gone) {
            let net = &mut nets[member.net];
            let policy = net.stopped.clone().map_or_else(|| Ok(net.policy()), Err);
            departed.push(Departed { agent: member.agent, policy });
            net.close_rows(&member.rows);
        }
        departed
    }

    /// Drops learners without an agent, and renumbers the others. Those of a task type, or of all,
    /// are kept for newcomers.
    fn let_go(&mut self) {
        if matches!(
            self.rules.method.parameter_sharing,
            ParameterSharing::Kind | ParameterSharing::All
        ) {
            return;
        }
        let mut is_used = vec![false; self.nets.len()];
        let all = self.members.iter().chain(&self.away);
        all.for_each(|member| is_used[member.net] = true);
        let mut number = 0;
        let renumbered: Vec<usize> = is_used
            .iter()
            .map(|is_used| {
                let own = number;
                number += usize::from(*is_used);
                own
            })
            .collect();
        let mut uses = is_used.into_iter();
        self.nets.retain(|_| uses.next().unwrap_or(false));
        let all = self.members.iter_mut().chain(&mut self.away);
        all.for_each(|member| member.net = renumbered[member.net]);
    }

    /// A new agent, with a learner of its own or the one it shares.
    fn raise(&mut self, agent: AgentId, task_type: TaskType, team: usize) -> Result<Member> {
        let envs = self.rules.method.num_envs;
        let of_task_type =
            || self.tables[0].task_types.iter().filter(|other| **other == task_type).count();
        let (shared, name, sharers) = match self.rules.method.parameter_sharing {
            ParameterSharing::None | ParameterSharing::Base => {
                (None, format!("agent/{}", agent.number()), 1)
            }
            ParameterSharing::Kind => {
                let shared = self.nets.iter().position(|net| net.origin.task_type == task_type);
                (shared, format!("kind/{}", task_type.name()), of_task_type())
            }
            ParameterSharing::All => ((!self.nets.is_empty()).then_some(0), "all".to_owned(), team),
        };
        let net = match shared {
            Some(net) => net,
            None => {
                let origin = Origin { agent, task_type, rows: sharers * envs };
                let seeds = self.seeds.child(&name).child("learner");
                let mut net = Net::new(&self.form(), origin, seeds)?;
                if self.rules.method.parameter_sharing == ParameterSharing::Base
                    && let Some(ppo) = net.ppo_mut()
                {
                    self.bases.start(task_type, ppo);
                }
                self.nets.push(net);
                self.nets.len() - 1
            }
        };
        let rows = self.nets[net].open_rows(envs);
        Ok(Member::new(agent, task_type, net, rows))
    }

    fn form(&self) -> Form<'_> {
        Form { learners: &self.config.learners, spec: &self.spec, extra: self.rules.extra }
    }

    /// The policy of every agent that is present and of those that come back, as it is now; an agent that
    /// stopped on an error has none to trust.
    pub fn policies(&self) -> Vec<(AgentId, Policy)> {
        let all = self.members.iter().chain(&self.away);
        let sound = all.filter(|member| self.nets[member.net].stopped.is_none());
        let policy = |member: &Member| (member.agent, self.nets[member.net].policy());
        let mut policies: Vec<_> = sound.map(policy).collect();
        policies.sort_by_key(|(agent, _)| *agent);
        policies
    }

    /// Who is there.
    pub fn agents(&self) -> impl Iterator<Item = AgentId> {
        self.members.iter().map(|member| member.agent)
    }

    /// Why an agent learns no more, if it does not.
    pub fn stopped(&self, agent: AgentId) -> Option<&str> {
        self.net_of(agent)?.stopped.as_deref()
    }

    /// Requests and containers of each agent in the last step, over all copies of the environment.
    pub fn last_service(&self) -> impl Iterator<Item = (AgentId, ServiceTotals)> {
        self.tables.iter().flat_map(|table| &table.last).map(|last| (last.agent, last.service))
    }

    /// Figures of an update of an agent's learner, if there was one in the last step.
    pub fn learned(&self, agent: AgentId) -> Option<&[(&'static str, f64)]> {
        self.net_of(agent)?.learned.as_deref()
    }

    fn net_of(&self, agent: AgentId) -> Option<&Net> {
        let of = |members: &[Member]| {
            let index = members.binary_search_by_key(&agent, |member| member.agent).ok()?;
            Some(members[index].net)
        };
        of(&self.members).or_else(|| of(&self.away)).map(|net| &self.nets[net])
    }

    /// The environment of the agents.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// Steps that the agents have played, those of all copies together.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Bytes that the agents keep while they train, without their environments.
    pub fn bytes(&self) -> usize {
        let tables: usize = self.tables.iter().map(SeatTable::bytes).sum();
        tables + self.nets.iter().map(Net::bytes).sum::<usize>()
    }

    /// Writes the whole state, but for what the last step left to be asked for: episodes that
    /// ended and figures of updates.
    pub fn save(&self, out: &mut Snapshot) {
        out.put_u64("team/clock", [self.step, self.generation, self.nets.len() as u64]);
        out.put_f64("team/per", [self.rules.per]);
        for (number, (env, table)) in self.envs.iter().zip(&self.tables).enumerate() {
            env.save(&format!("team/env/{number}"), out);
            table.save(&format!("team/table/{number}"), out);
        }
        for (number, net) in self.nets.iter().enumerate() {
            net.save(&format!("team/net/{number}"), out);
        }
        let numbers = |agents: &mut dyn Iterator<Item = AgentId>| -> Vec<u64> {
            agents.map(|agent| u64::from(agent.number())).collect()
        };
        out.put_u64("team/founders", numbers(&mut self.founders.iter().copied()));
        for (name, members) in [("team/members", &self.members), ("team/away", &self.away)] {
            out.put_u64(name, numbers(&mut members.iter().map(|member| member.agent)));
            members.iter().for_each(|member| member.save(out));
        }
        self.bases.save("team/bases", out);
    }

    /// Restores what [`Training::save`] wrote into a team of the same settings.
    pub fn load(&mut self, from: &Snapshot) -> Result<()> {
        let clock = from.u64s("team/clock", 3)?;
        [self.step, self.generation] = [clock[0], clock[1]];
        self.rules.per = from.f64s("team/per", 1)?[0];
        for (number, (env, table)) in self.envs.iter_mut().zip(&mut self.tables).enumerate() {
            env.load(&format!("team/env/{number}"), from)?;
            table.load(env.as_ref(), &self.rules, &format!("team/table/{number}"), from)?;
        }
        let mut nets = Vec::new();
        for number in 0..clock[2] {
            nets.push(Net::load(&self.form(), &format!("team/net/{number}"), from)?);
        }
        self.nets = nets;
        let agents = |name: &str| -> Result<Vec<AgentId>> {
            let numbers = from.any_u64s(name)?.iter();
            Ok(numbers.map(|number| AgentId::new(*number as u32)).collect())
        };
        let members = |name: &str| -> Result<Vec<Member>> {
            let agents = agents(name)?.into_iter();
            agents.map(|agent| self.restored(agent, from)).collect()
        };
        let (members, away) = (members("team/members")?, members("team/away")?);
        (self.members, self.away) = (members, away);
        self.founders = agents("team/founders")?;
        if let Some(ppo) = self.nets.first().and_then(Net::ppo) {
            self.bases.load("team/bases", ppo, from)?;
        }
        self.finished.clear();
        self.seat_all_agents().map(drop)
    }

    /// A saved agent, refused if it does not fit the saved learners.
    fn restored(&self, agent: AgentId, from: &Snapshot) -> Result<Member> {
        let member = Member::load(agent, self.rules.method.num_envs, from)?;
        let rows = self.nets.get(member.net).map_or(0, Net::rows);
        if member.rows.iter().all(|row| *row < rows) {
            return Ok(member);
        }
        let found = format!("learner {}, rows {:?}", member.net, member.rows);
        let expected = format!("one of {} learners and its rows", self.nets.len());
        let name = format!("team/member/{}/facts", agent.number());
        Err(homeostat_core::Error::SnapshotMismatch { name, found, expected }.into())
    }
}

/// The seeds of the copies of an environment, after it was replaced so many times.
pub(crate) fn env_seeds(seed: u64, generation: Option<u64>) -> SeedTree {
    let seeds = SeedTree::new(seed).child("world");
    generation.map_or_else(|| seeds.clone(), |generation| seeds.child(&generation.to_string()))
}
