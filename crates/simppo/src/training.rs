//! A team in training: worlds, agents, and the networks that they share or do not share.
//!
//! A step is two parallel loops: over the copies of the world, which play, and over the
//! networks, which take in what came of it, learn and choose the next actions. Neither reads
//! what the other writes, so the outcome does not depend on the number of threads.

use homeostat_core::{AgentId, SeedTree, Snapshot};
use homeostat_env::{EnvSpec, MultiAgentEnv};
use homeostat_nn::Kernel;
use homeostat_rl::{Learner, Policy, PpoConfig, for_each_agent, for_each_agent_of};
use rayon::prelude::*;

use crate::bases::Bases;
use crate::lane::{Lane, Rules};
use crate::member::{Member, Running};
use crate::net::{Form, Net, Origin, Seat};
use crate::outlook::{StateLayout, width_of};
use crate::{Error, Method, Order, ParameterSharing, Result, TaskType};

/// What a team is made of.
#[derive(Debug, Clone)]
pub struct TeamConfig {
    /// How it learns.
    pub method: Method,
    /// How each of its networks does. The minibatch is for one agent in one world: a network
    /// that plays for several takes so many times as many, and as many gradient steps.
    pub ppo: PpoConfig,
    /// The kind of each task.
    pub task_types: Vec<TaskType>,
    /// The processor's instructions to use.
    pub kernel: Kernel,
    /// Everything random follows from it.
    pub seed: u64,
    /// Steps of the whole training, for schedules.
    pub total_steps: u64,
}

/// Agents that learn together.
pub struct Training {
    config: TeamConfig,
    rules: Rules,
    spec: EnvSpec,
    seeds: SeedTree,
    worlds: Vec<Box<dyn MultiAgentEnv>>,
    /// One for each world.
    lanes: Vec<Lane>,
    /// Who was there when the worlds were made.
    founders: Vec<AgentId>,
    /// Those alive, ordered.
    members: Vec<Member>,
    /// Founders that left: the next episode brings them back, with what they have learnt.
    away: Vec<Member>,
    nets: Vec<Net>,
    bases: Bases,
    /// Steps that the team has played.
    step: u64,
    /// How often the worlds were replaced.
    generation: u64,
    finished: Vec<Finished>,
}

/// A finished episode of one agent in one copy of the world.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finished {
    /// Whose.
    pub agent: AgentId,
    /// Which copy.
    pub world: usize,
    /// Sum of the world's rewards.
    pub own_return: f64,
    /// Sum of what it learnt from.
    pub paid_return: f64,
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

/// The parts of a step, for whoever measures them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Networks chose.
    Choosing,
    /// Worlds played.
    Playing,
    /// Networks took in what came of it, and some were updated.
    Learning,
}

/// Networks that make a task where each has a microsecond of work: a thread takes longer to
/// wake.
const QUICK: usize = 32;

impl Training {
    /// A fresh team in worlds from `make`.
    pub fn new(
        config: &TeamConfig,
        make: &dyn Fn() -> Result<Box<dyn MultiAgentEnv>>,
    ) -> Result<Self> {
        config.method.validate()?;
        let world = make()?;
        let spec = world.spec().clone();
        let width = spec.observation.len();
        let layout = StateLayout::of(&spec);
        if config.method.order == Order::Queue && layout == StateLayout::Unknown {
            return Err(Error::Setting {
                setting: "simppo.order",
                need: format!(
                    "together, since {} does not say how well objectives are kept",
                    spec.id
                ),
                value: "queue".to_owned(),
            });
        }
        let rules = Rules {
            layout,
            width,
            extra: width_of(config.method.critic_input, width),
            kinds: config.task_types.clone(),
            per: 1.0,
            hold: spec.action.hold(),
            method: config.method.clone(),
        };
        let mut this = Self {
            rules,
            spec,
            seeds: SeedTree::new(config.seed),
            worlds: Vec::new(),
            lanes: Vec::new(),
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
        this.replace_worlds(make)?;
        Ok(this)
    }

    /// Replaces every copy of the world: functions that came or went bring their agents or take
    /// them along, the others go on with what they have learnt.
    pub fn replace_worlds(
        &mut self,
        make: &dyn Fn() -> Result<Box<dyn MultiAgentEnv>>,
    ) -> Result<()> {
        let seeds = self.seeds.child("world").child(&self.generation.to_string());
        let mut worlds = Vec::new();
        for number in 0..self.config.method.num_envs {
            let mut world = make()?;
            world.reset(Some(seeds.seed(&format!("lane/{number}"))))?;
            worlds.push(world);
        }
        if self.generation == 0 {
            // Sums are measured against the team as it began, so that growth can be seen.
            self.rules.per = worlds[0].agents().len().max(2) as f64 - 1.0;
        }
        self.generation += 1;
        self.founders = worlds[0].agents().to_vec();
        self.lanes = worlds.iter().map(|world| Lane::new(world.as_ref(), &self.rules)).collect();
        self.worlds = worlds;
        let everybody = self.members.iter_mut().chain(&mut self.away);
        everybody.for_each(|member| member.running.fill(Running::default()));
        self.seat_everybody().map(drop)
    }

    /// One step of everybody in every copy of the world. Says who left for good.
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
        let Self { lanes, worlds, rules, .. } = self;
        let pairs = worlds.par_iter_mut().zip(lanes.par_iter_mut());
        pairs.for_each(|(world, lane)| lane.play(world.as_mut(), rules));
        // The first in their order, whichever thread came first.
        if let Some(failure) = lanes.iter_mut().find_map(|lane| lane.failure.take()) {
            return Err(failure);
        }
        done(Part::Playing);
        self.step += self.config.method.num_envs as u64;
        self.take_in();
        self.keep_books();
        let has_changed = self.lanes.iter().any(|lane| lane.has_changed);
        let departed = if has_changed { self.seat_everybody()? } else { Vec::new() };
        done(Part::Learning);
        Ok(departed)
    }

    /// Plays until an episode has ended in every copy of the world.
    pub fn episode(&mut self) -> Result<Vec<Finished>> {
        self.finished.clear();
        rayon::scope(|_| -> Result<()> {
            let mut is_over = vec![false; self.lanes.len()];
            while is_over.contains(&false) {
                self.step_inside(&mut |_| {})?;
                let ends = self.lanes.iter().map(Lane::begins);
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

    /// Every network chooses for those it plays for.
    fn choose(&mut self) {
        let Self { lanes, rules, nets, config, .. } = self;
        let (lanes, rules) = (&*lanes, &*rules);
        for_each_agent_of(config.kernel, QUICK, nets, |net, workspace| {
            net.choose(lanes, rules, workspace);
        });
    }

    /// Hands the choices to the worlds; whoever did not choose holds.
    fn scatter(&mut self) {
        let Self { lanes, rules, nets, .. } = self;
        for lane in lanes.iter_mut() {
            lane.actions.iter_mut().for_each(|action| action.clone_from(&rules.hold));
        }
        for net in nets.iter_mut().filter(|net| net.stopped.is_none()) {
            for (number, action) in net.chosen.iter().zip(&mut net.actions) {
                let seat = &net.seats[*number];
                // Swapped rather than copied: an action may own memory.
                std::mem::swap(&mut lanes[seat.world].actions[seat.place], action);
            }
        }
    }

    /// Every network takes in what came of its choices, and learns if it has seen enough.
    fn take_in(&mut self) {
        let progress = (self.step as f64 / self.config.total_steps.max(1) as f64).min(1.0);
        let Self { lanes, rules, nets, config, .. } = self;
        let (lanes, rules) = (&*lanes, &*rules);
        for_each_agent_of(config.kernel, QUICK, nets, |net, workspace| {
            net.take_in(lanes, rules, workspace);
        });
        if nets.iter().any(|net| net.stopped.is_none() && net.ppo.is_due()) {
            for_each_agent(config.kernel, nets, |net, workspace| {
                if net.stopped.is_none() {
                    net.learn(progress, workspace);
                }
            });
        }
    }

    /// Counts rewards and episodes; base models follow whoever does best.
    fn keep_books(&mut self) {
        let Self { lanes, members, finished, .. } = self;
        let mut has_ended = false;
        for (world, lane) in lanes.iter().enumerate() {
            for last in &lane.last {
                let found = members.binary_search_by_key(&last.agent, |member| member.agent);
                let Ok(index) = found else { continue };
                let running = &mut members[index].running[world];
                running.own += last.own;
                running.paid += last.paid;
                running.length += 1;
                // An agent that merely waits for its turn is not at the end of its episode.
                let is_over = lane.agents.binary_search(&last.agent).is_err() || lane.begins();
                if !is_over {
                    continue;
                }
                has_ended = true;
                let Running { own, paid, length } = members[index].finish(world);
                let (agent, own_return, paid_return) = (last.agent, own, paid);
                finished.push(Finished { agent, world, own_return, paid_return, length });
            }
        }
        if has_ended && self.config.method.parameter_sharing == ParameterSharing::Base {
            self.update_bases();
        }
    }

    fn update_bases(&mut self) {
        for kind in TaskType::ALL {
            let of_kind = self.members.iter().filter(|member| member.kind == kind);
            let sound = of_kind.filter(|member| self.nets[member.net].stopped.is_none());
            let ranked = sound.filter_map(|member| Some((member.standing()?, member.net)));
            if let Some((_, net)) = ranked.max_by(|a, b| a.0.total_cmp(&b.0)) {
                self.bases.follow(kind, &self.nets[net].ppo);
            }
        }
    }

    /// Gives everybody alive a seat; newcomers get networks, leavers give theirs back.
    fn seat_everybody(&mut self) -> Result<Vec<Departed>> {
        let present = self.lanes[0].agents.clone();
        if self.lanes[1..].iter().any(|lane| lane.agents != present) {
            return Err(Error::Apart);
        }
        // Leavers first, so that their networks' lanes are free.
        let is_absent = |member: &mut Member| present.binary_search(&member.agent).is_err();
        let leavers: Vec<Member> = self.members.extract_if(.., is_absent).collect();
        self.away.extend(leavers);
        let departed = self.dismiss();
        for (place, agent) in present.iter().enumerate() {
            if let Err(index) = self.members.binary_search_by_key(agent, |member| member.agent) {
                let returned = self.away.iter().position(|member| member.agent == *agent);
                let member = match returned {
                    Some(place) => self.away.swap_remove(place),
                    None => self.raise(*agent, self.lanes[0].kinds[place], present.len())?,
                };
                self.members.insert(index, member);
            }
        }
        self.away.sort_unstable_by_key(|member| member.agent);
        self.nets.iter_mut().for_each(|net| net.seats.clear());
        for (place, member) in self.members.iter().enumerate() {
            for (world, ppo_lane) in member.ppo_lanes.iter().enumerate() {
                self.nets[member.net].seats.push(Seat { world, place, ppo_lane: *ppo_lane });
            }
        }
        self.let_go();
        Ok(departed)
    }

    /// Parts with those away that no episode brings back: their lanes are free.
    fn dismiss(&mut self) -> Vec<Departed> {
        let Self { away, founders, nets, .. } = self;
        let is_gone = |member: &mut Member| founders.binary_search(&member.agent).is_err();
        let mut departed = Vec::new();
        for member in away.extract_if(.., is_gone) {
            let net = &mut nets[member.net];
            let policy = net.stopped.clone().map_or_else(|| Ok(net.ppo.policy()), Err);
            departed.push(Departed { agent: member.agent, policy });
            member.ppo_lanes.into_iter().for_each(|lane| net.ppo.close_lane(lane));
        }
        departed
    }

    /// Drops networks that play for nobody, and renumbers the others. Those of a kind, or of
    /// all, are kept for whoever comes.
    fn let_go(&mut self) {
        if matches!(
            self.config.method.parameter_sharing,
            ParameterSharing::Kind | ParameterSharing::All
        ) {
            return;
        }
        let mut is_used = vec![false; self.nets.len()];
        let everybody = self.members.iter().chain(&self.away);
        everybody.for_each(|member| is_used[member.net] = true);
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
        let everybody = self.members.iter_mut().chain(&mut self.away);
        everybody.for_each(|member| member.net = renumbered[member.net]);
    }

    /// A new agent, with networks of its own or those it shares.
    fn raise(&mut self, agent: AgentId, kind: TaskType, team: usize) -> Result<Member> {
        let worlds = self.config.method.num_envs;
        let of_kind = || self.lanes[0].kinds.iter().filter(|other| **other == kind).count();
        let (shared, name, sharers) = match self.config.method.parameter_sharing {
            ParameterSharing::None | ParameterSharing::Base => {
                (None, format!("agent/{}", agent.number()), 1)
            }
            ParameterSharing::Kind => {
                let shared = self.nets.iter().position(|net| net.origin.kind == kind);
                (shared, format!("kind/{}", kind.name()), of_kind())
            }
            ParameterSharing::All => ((!self.nets.is_empty()).then_some(0), "all".to_owned(), team),
        };
        let net = match shared {
            Some(net) => net,
            None => {
                let origin = Origin { agent, kind, rows: sharers * worlds };
                let seeds = self.seeds.child(&name).child("learner");
                let mut net = Net::new(&self.form(), origin, seeds)?;
                if self.config.method.parameter_sharing == ParameterSharing::Base {
                    self.bases.start(kind, &mut net.ppo);
                }
                self.nets.push(net);
                self.nets.len() - 1
            }
        };
        let ppo_lanes = (0..worlds).map(|_| self.nets[net].ppo.open_lane()).collect();
        Ok(Member::new(agent, kind, net, ppo_lanes))
    }

    fn form(&self) -> Form<'_> {
        Form { ppo: &self.config.ppo, spec: &self.spec, extra: self.rules.extra }
    }

    /// The policy of everybody there and of those who come back, as it is now; an agent that
    /// stopped on an error has none to trust.
    pub fn policies(&self) -> Vec<(AgentId, Policy)> {
        let everybody = self.members.iter().chain(&self.away);
        let sound = everybody.filter(|member| self.nets[member.net].stopped.is_none());
        let policy = |member: &Member| (member.agent, self.nets[member.net].ppo.policy());
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

    /// Figures of an update of an agent's network, if there was one in the last step.
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

    /// What the agents play in.
    pub fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    /// Steps that the team has played, those of all copies together.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Bytes that the team keeps while it trains, without its worlds.
    pub fn bytes(&self) -> usize {
        let lanes: usize = self.lanes.iter().map(Lane::bytes).sum();
        lanes + self.nets.iter().map(|net| net.ppo.bytes()).sum::<usize>()
    }

    /// Writes the whole state, but for what the last step left to be asked for: episodes that
    /// ended and figures of updates.
    pub fn save(&self, out: &mut Snapshot) {
        out.put_u64("team/clock", [self.step, self.generation, self.nets.len() as u64]);
        out.put_f64("team/per", [self.rules.per]);
        for (number, (world, lane)) in self.worlds.iter().zip(&self.lanes).enumerate() {
            world.save(&format!("team/world/{number}"), out);
            lane.save(&format!("team/lane/{number}"), out);
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
        for (number, (world, lane)) in self.worlds.iter_mut().zip(&mut self.lanes).enumerate() {
            world.load(&format!("team/world/{number}"), from)?;
            lane.load(world.as_ref(), &self.rules, &format!("team/lane/{number}"), from)?;
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
        if let Some(net) = self.nets.first() {
            self.bases.load("team/bases", &net.ppo, from)?;
        }
        self.finished.clear();
        self.seat_everybody().map(drop)
    }

    /// A saved agent, refused if it does not fit the networks that were.
    fn restored(&self, agent: AgentId, from: &Snapshot) -> Result<Member> {
        let member = Member::load(agent, self.config.method.num_envs, from)?;
        let lanes = self.nets.get(member.net).map(|net| net.ppo.lanes());
        let fits = |lane: &usize| lanes.is_some_and(|lanes| *lane < lanes);
        if member.ppo_lanes.iter().all(fits) {
            return Ok(member);
        }
        let found = format!("network {}, lanes {:?}", member.net, member.ppo_lanes);
        let expected = format!("one of {} networks and its lanes", self.nets.len());
        let name = format!("team/member/{}/facts", agent.number());
        Err(homeostat_core::Error::SnapshotMismatch { name, found, expected }.into())
    }
}
