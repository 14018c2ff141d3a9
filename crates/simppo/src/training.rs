//! A team in training: worlds, agents, and the networks that they share or do not share.
//!
//! A step is two parallel loops: over the copies of the world, which play, and over the
//! networks, which take in what came of it, learn and choose the next actions. Neither reads
//! what the other writes, so the outcome does not depend on the number of threads.

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot};
use homeostat_env::{Action, EnvSpec, MultiAgentEnv, Space};
use homeostat_nn::Kernel;
use homeostat_rl::{
    AgentContext, Learner, Outcome, Policy, Ppo, PpoConfig, Workspace, for_each_agent,
    for_each_agent_of,
};
use rayon::prelude::*;

use crate::bases::Bases;
use crate::lane::{Lane, Rules};
use crate::outlook::{Dialect, width_of};
use crate::{Error, Kind, Method, Result, Sharing};

/// What a team is made of.
#[derive(Debug, Clone)]
pub struct TeamConfig {
    /// How it learns.
    pub method: Method,
    /// How each of its networks does. The minibatch is for one agent in one world: a network
    /// that plays for several takes so many times as many, and as many gradient steps.
    pub ppo: PpoConfig,
    /// The kind of each task.
    pub kinds: Vec<Kind>,
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
    /// Ordered by agent.
    members: Vec<Member>,
    nets: Vec<Net>,
    bases: Bases,
    /// Steps that the team has played.
    step: u64,
    /// How often the worlds were replaced.
    generation: u64,
    finished: Vec<Finished>,
}

/// One agent.
struct Member {
    agent: AgentId,
    kind: Kind,
    /// Which network plays for it.
    net: usize,
    /// The network's lane in each copy of the world.
    ppo_lanes: Vec<usize>,
    /// Its unfinished episode in each copy.
    running: Vec<Running>,
    /// Mean reward of a step, the last episodes counting most.
    recent: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Running {
    own: f64,
    paid: f64,
    length: u32,
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

/// One pair of networks and those it plays for.
struct Net {
    ppo: Ppo,
    seats: Vec<Seat>,
    /// Scratch of a step: who chooses, what they see, what they do.
    chosen: Vec<usize>,
    ppo_lanes: Vec<usize>,
    obs: Vec<f32>,
    actions: Vec<Action>,
    /// Figures of its last update.
    learned: Vec<(&'static str, f64)>,
    /// Why it learns no more.
    stopped: Option<String>,
}

/// One agent of a network in one copy of the world.
struct Seat {
    world: usize,
    place: usize,
    ppo_lane: usize,
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
        if config.method.worlds == 0 || config.method.worlds > 1024 {
            return Err(Error::Setting {
                setting: "simppo.worlds",
                need: "from 1 to 1024".to_owned(),
                value: config.method.worlds.to_string(),
            });
        }
        let world = make()?;
        let spec = world.spec().clone();
        let width = spec.observation.len();
        let rules = Rules {
            dialect: Dialect::of(&spec.id.to_string()),
            width,
            extra: width_of(config.method.view, width),
            kinds: config.kinds.clone(),
            per: 1.0,
            hold: hold(&spec.action),
            method: config.method.clone(),
        };
        let mut this = Self {
            rules,
            spec,
            seeds: SeedTree::new(config.seed),
            worlds: Vec::new(),
            lanes: Vec::new(),
            members: Vec::new(),
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
        for number in 0..self.config.method.worlds {
            let mut world = make()?;
            world.reset(Some(seeds.seed(&format!("lane/{number}"))))?;
            worlds.push(world);
        }
        if self.generation == 0 {
            // Sums are measured against the team as it began, so that growth can be seen.
            self.rules.per = worlds[0].agents().len().max(2) as f64 - 1.0;
        }
        self.generation += 1;
        self.lanes = worlds.iter().map(|world| Lane::new(world.as_ref(), &self.rules)).collect();
        self.worlds = worlds;
        self.members.iter_mut().for_each(|member| member.running.fill(Running::default()));
        self.seat_everybody()
    }

    /// One step of everybody in every copy of the world.
    pub fn step(&mut self) -> Result<()> {
        // From here on rayon's threads hand work to one another; from outside, each loop would
        // wake one and wait for it.
        rayon::scope(|_| self.step_inside())
    }

    fn step_inside(&mut self) -> Result<()> {
        self.choose();
        self.scatter();
        let Self { lanes, worlds, rules, .. } = self;
        let pairs = worlds.par_iter_mut().zip(lanes.par_iter_mut());
        pairs.for_each(|(world, lane)| lane.play(world.as_mut(), rules));
        // The first in their order, whichever thread came first.
        if let Some(failure) = lanes.iter_mut().find_map(|lane| lane.failure.take()) {
            return Err(failure);
        }
        self.step += self.config.method.worlds as u64;
        self.take_in();
        self.keep_books();
        if self.lanes.iter().any(|lane| lane.has_changed) {
            self.seat_everybody()?;
        }
        Ok(())
    }

    /// Plays until an episode has ended in every copy of the world.
    pub fn episode(&mut self) -> Result<Vec<Finished>> {
        self.finished.clear();
        let begun = self.members.len() * self.lanes.len();
        rayon::scope(|_| -> Result<()> {
            while self.finished.len() < begun {
                self.step_inside()?;
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
            net.chosen.clear();
            net.ppo_lanes.clear();
            net.obs.clear();
            if net.stopped.is_some() {
                return;
            }
            for (number, seat) in net.seats.iter().enumerate() {
                if lanes[seat.world].is_turn_of(seat.place) {
                    net.chosen.push(number);
                    net.ppo_lanes.push(seat.ppo_lane);
                    lanes[seat.world].row(seat.place, rules, &mut net.obs);
                }
            }
            net.actions.resize(net.chosen.len(), rules.hold.clone());
            if net.chosen.is_empty() {
                return;
            }
            let chosen = net.ppo.act_in(&net.ppo_lanes, &net.obs, &mut net.actions, workspace);
            net.stop_on(chosen.map_err(Error::from));
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
            if net.stopped.is_none() {
                let taken = net.take_in(lanes, rules, workspace);
                net.stop_on(taken);
            }
        });
        if nets.iter().any(|net| net.stopped.is_none() && net.ppo.is_due()) {
            for_each_agent(config.kernel, nets, |net, workspace| {
                if net.stopped.is_none() {
                    let learned = net.learn(progress, workspace);
                    net.stop_on(learned);
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
                let Running { own, paid, length } = std::mem::take(running);
                let (agent, own_return, paid_return) = (last.agent, own, paid);
                finished.push(Finished { agent, world, own_return, paid_return, length });
                let member = &mut members[index];
                let mean = own / f64::from(length.max(1));
                member.recent += 0.1 * (mean - member.recent);
            }
        }
        if has_ended && self.config.method.sharing == Sharing::Base {
            for kind in Kind::ALL {
                let of_kind = self.members.iter().filter(|member| member.kind == kind);
                let best = of_kind.max_by(|a, b| a.recent.total_cmp(&b.recent));
                if let Some(best) = best {
                    self.bases.follow(kind, &self.nets[best.net].ppo);
                }
            }
        }
    }

    /// Gives everybody alive a seat; newcomers get networks, leavers give theirs back.
    fn seat_everybody(&mut self) -> Result<()> {
        let present = self.lanes[0].agents.clone();
        if self.lanes[1..].iter().any(|lane| lane.agents != present) {
            return Err(Error::Apart);
        }
        // Leavers first, so that their networks' lanes are free.
        let leavers: Vec<Member> = self
            .members
            .extract_if(.., |member| present.binary_search(&member.agent).is_err())
            .collect();
        for leaver in leavers {
            for lane in leaver.ppo_lanes {
                self.nets[leaver.net].ppo.close_lane(lane);
            }
        }
        for (place, agent) in present.iter().enumerate() {
            if let Err(index) = self.members.binary_search_by_key(agent, |member| member.agent) {
                let member = self.raise(*agent, self.lanes[0].kinds[place], present.len())?;
                self.members.insert(index, member);
            }
        }
        self.nets.iter_mut().for_each(|net| net.seats.clear());
        for (place, member) in self.members.iter().enumerate() {
            for (world, ppo_lane) in member.ppo_lanes.iter().enumerate() {
                self.nets[member.net].seats.push(Seat { world, place, ppo_lane: *ppo_lane });
            }
        }
        self.let_go();
        Ok(())
    }

    /// Drops networks that play for nobody, and renumbers the others. Those of a kind, or of
    /// all, are kept for whoever comes.
    fn let_go(&mut self) {
        if matches!(self.config.method.sharing, Sharing::Kind | Sharing::All) {
            return;
        }
        let mut number = 0;
        let renumbered: Vec<usize> = self
            .nets
            .iter()
            .map(|net| {
                let own = number;
                number += usize::from(!net.seats.is_empty());
                own
            })
            .collect();
        self.nets.retain(|net| !net.seats.is_empty());
        self.members.iter_mut().for_each(|member| member.net = renumbered[member.net]);
    }

    /// A new agent, with networks of its own or those it shares.
    fn raise(&mut self, agent: AgentId, kind: Kind, team: usize) -> Result<Member> {
        let worlds = self.config.method.worlds;
        let (shared, name) = match self.config.method.sharing {
            Sharing::Nobody | Sharing::Base => (None, format!("agent/{}", agent.number())),
            Sharing::Kind => {
                let net = self.members.iter().find(|member| member.kind == kind);
                (net.map(|member| member.net), format!("kind/{}", kind.name()))
            }
            Sharing::All => ((!self.nets.is_empty()).then_some(0), "all".to_owned()),
        };
        let net = match shared {
            Some(net) => net,
            None => {
                let sharers = match self.config.method.sharing {
                    Sharing::Nobody | Sharing::Base => 1,
                    Sharing::Kind => {
                        self.lanes[0].kinds.iter().filter(|other| **other == kind).count().max(1)
                    }
                    Sharing::All => team,
                };
                let mut net = self.fresh_net(agent, &name, sharers * worlds)?;
                if self.config.method.sharing == Sharing::Base {
                    self.bases.start(kind, &mut net.ppo);
                }
                self.nets.push(net);
                self.nets.len() - 1
            }
        };
        let ppo_lanes = (0..worlds).map(|_| self.nets[net].ppo.open_lane()).collect();
        let running = vec![Running::default(); worlds];
        Ok(Member { agent, kind, net, ppo_lanes, running, recent: 0.0 })
    }

    fn fresh_net(&self, agent: AgentId, name: &str, rows: usize) -> Result<Net> {
        let config = PpoConfig {
            lanes: 1,
            minibatch: self.config.ppo.minibatch * rows,
            ..self.config.ppo.clone()
        };
        let context = AgentContext {
            agent,
            spec: self.spec.clone(),
            seeds: self.seeds.child(name).child("learner"),
        };
        let mut ppo = Ppo::with_critic_extra(&config, &context, self.rules.extra)?;
        // Agents open the lanes they need.
        ppo.close_lane(0);
        Ok(Net {
            ppo,
            seats: Vec::new(),
            chosen: Vec::new(),
            ppo_lanes: Vec::new(),
            obs: Vec::new(),
            actions: Vec::new(),
            learned: Vec::new(),
            stopped: None,
        })
    }

    /// Every agent's policy as it is now; one that stopped on an error has none to trust.
    pub fn policies(&self) -> Vec<(AgentId, Policy)> {
        let sound = self.members.iter().filter(|member| self.nets[member.net].stopped.is_none());
        sound.map(|member| (member.agent, self.nets[member.net].ppo.policy())).collect()
    }

    /// Who is there.
    pub fn agents(&self) -> impl Iterator<Item = AgentId> {
        self.members.iter().map(|member| member.agent)
    }

    /// Why an agent learns no more, if it does not.
    pub fn stopped(&self, agent: AgentId) -> Option<&str> {
        self.net_of(agent)?.stopped.as_deref()
    }

    /// Figures of the last update of an agent's network.
    pub fn learned(&self, agent: AgentId) -> &[(&'static str, f64)] {
        self.net_of(agent).map_or(&[], |net| net.learned.as_slice())
    }

    fn net_of(&self, agent: AgentId) -> Option<&Net> {
        let index = self.members.binary_search_by_key(&agent, |member| member.agent).ok()?;
        Some(&self.nets[self.members[index].net])
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

    /// Writes the whole state.
    pub fn save(&self, out: &mut Snapshot) {
        out.put_u64("team/clock", [self.step, self.generation, self.nets.len() as u64]);
        out.put_f64("team/per", [self.rules.per]);
        for (number, (world, lane)) in self.worlds.iter().zip(&self.lanes).enumerate() {
            world.save(&format!("team/world/{number}"), out);
            lane.save(&format!("team/lane/{number}"), out);
        }
        for (number, net) in self.nets.iter().enumerate() {
            net.ppo.save(&format!("team/net/{number}"), out);
        }
        let numbers: Vec<u64> =
            self.members.iter().map(|member| u64::from(member.agent.number())).collect();
        out.put_u64("team/members", numbers);
        for member in &self.members {
            let name = format!("team/member/{}", member.agent.number());
            let mut facts = vec![member.kind as u64, member.net as u64];
            facts.extend(member.ppo_lanes.iter().map(|lane| *lane as u64));
            out.put_u64(&format!("{name}/facts"), facts);
            let mut books = vec![member.recent];
            for running in &member.running {
                books.extend([running.own, running.paid, f64::from(running.length)]);
            }
            out.put_f64(&format!("{name}/books"), books);
        }
        self.bases.save("team/bases", out);
    }

    /// Restores what [`Training::save`] wrote into a team of the same settings.
    pub fn load(&mut self, from: &Snapshot) -> Result<()> {
        let clock = from.u64s("team/clock", 3)?;
        [self.step, self.generation] = [clock[0], clock[1]];
        let net_count = clock[2] as usize;
        self.rules.per = from.f64s("team/per", 1)?[0];
        for (number, (world, lane)) in self.worlds.iter_mut().zip(&mut self.lanes).enumerate() {
            world.load(&format!("team/world/{number}"), from)?;
            lane.load(world.as_ref(), &self.rules, &format!("team/lane/{number}"), from)?;
        }
        let worlds = self.config.method.worlds;
        self.members.clear();
        for number in from.any_u64s("team/members")? {
            let agent = AgentId::new(*number as u32);
            let name = format!("team/member/{number}");
            let facts = from.u64s(&format!("{name}/facts"), 2 + worlds)?;
            let books = from.f64s(&format!("{name}/books"), 1 + 3 * worlds)?;
            let running = books[1..].chunks_exact(3).map(|books| Running {
                own: books[0],
                paid: books[1],
                length: books[2] as u32,
            });
            self.members.push(Member {
                agent,
                kind: Kind::ALL[(facts[0] as usize).min(Kind::ALL.len() - 1)],
                net: (facts[1] as usize).min(net_count.saturating_sub(1)),
                ppo_lanes: facts[2..].iter().map(|lane| *lane as usize).collect(),
                running: running.collect(),
                recent: books[0],
            });
        }
        self.nets.clear();
        for number in 0..net_count {
            let owner = self.members.iter().find(|member| member.net == number);
            let owner = owner.map_or(AgentId::new(0), |member| member.agent);
            let sharers = self.members.iter().filter(|member| member.net == number).count();
            let mut net = self.fresh_net(owner, "restored", sharers.max(1) * worlds)?;
            net.ppo.load(&format!("team/net/{number}"), from)?;
            self.nets.push(net);
        }
        if let Some(net) = self.nets.first() {
            self.bases.load("team/bases", &net.ppo, from)?;
        }
        self.seat_everybody()
    }
}

impl Net {
    fn stop_on(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.stopped = Some(error.to_string());
        }
    }

    fn take_in(&mut self, lanes: &[Lane], rules: &Rules, workspace: &mut Workspace) -> Result<()> {
        for number in &self.chosen {
            let Seat { world, place, ppo_lane } = self.seats[*number];
            let last = &lanes[world].last[place];
            self.obs.clear();
            lanes[world].last_row(place, rules, &mut self.obs);
            let outcome = Outcome {
                reward: last.paid,
                terminated: last.terminated,
                truncated: last.truncated,
                next_obs: &self.obs,
            };
            self.ppo.record(ppo_lane, outcome, workspace)?;
        }
        Ok(())
    }

    fn learn(&mut self, progress: f64, workspace: &mut Workspace) -> Result<()> {
        if let Some(learned) = self.ppo.learn(progress, workspace)? {
            self.learned = learned.figures;
        }
        Ok(())
    }
}

/// The action of an agent that does not choose: the first choice, which the scaling worlds
/// read as "change nothing" where they step.
fn hold(space: &Space) -> Action {
    match space {
        Space::Discrete(_) => Action::Discrete(0),
        Space::MultiDiscrete(choices) => {
            Action::MultiDiscrete(choices.iter().map(|choices| choices / 2).collect())
        }
        Space::Box { low, high } => Action::Continuous(
            low.iter().zip(high).map(|(low, high)| 0.0_f32.clamp(*low, *high)).collect(),
        ),
    }
}
