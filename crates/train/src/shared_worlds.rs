//! Agents that play together: independent learners in copies of one shared world.
//!
//! Each learner is shown its own observation and paid its own reward, and knows of nobody
//! else. Lane `l` of every learner is copy `l` of the world, in which all agents act at once.
//! A step is two parallel loops: over the copies, which play, and over the agents, which
//! record, learn and choose their next actions. Neither reads what the other writes, so
//! the outcome does not depend on the number of threads.
//!
//! Agents that come and go do so in one lane only: those of two lanes would not be the same.
//! A newcomer is a fresh learner under a new number. Whoever was there at first is kept when
//! it leaves, since an episode may bring it back; of later agents that leave, the policy is.

use std::collections::BTreeMap;
use std::time::Instant;

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot};
use homeostat_env::{Action, EnvSpec, EpisodeSummary, MultiAgentEnv};
use homeostat_lab::{Error, Result, RunConfig};
use homeostat_nn::Kernel;
use homeostat_rl::{AgentContext, AlgorithmConfig, Learner, Policy, Workspace, for_each_agent};
use rayon::prelude::*;

use crate::episode_stats::{AgentRound, EpisodeStats, TIMED_ONE_IN, TimeSplit};
use crate::shared_lane::LaneTable;
use crate::trainer::{AgentGroup, refuse_what_does_not_fit};

/// Agents that share their worlds.
pub(crate) struct SharedWorlds {
    kernel: Kernel,
    nursery: AgentFactory,
    lanes: usize,
    /// Steps that the worlds have taken, those of all lanes together.
    step: u64,
    /// Who was there at first.
    founders: Vec<AgentId>,
    /// Who is there now and whoever may come back, ordered by number.
    members: Vec<Member>,
    retired: BTreeMap<AgentId, Retired>,
    /// Who retired since the last report.
    leaving: Vec<AgentId>,
    worlds: Vec<Box<dyn MultiAgentEnv>>,
    /// One for each world.
    tables: Vec<LaneTable>,
    hold: Action,
}

/// Where newcomers come from.
struct AgentFactory {
    algorithm: AlgorithmConfig,
    spec: EnvSpec,
    seeds: SeedTree,
}

/// One agent and its part of every lane.
struct Member {
    ledger: EpisodeStats,
    learner: Box<dyn Learner>,
    /// What it sees, one row per lane.
    obs: Vec<f32>,
    actions: Vec<Action>,
    /// Its unfinished episode in each lane.
    running: Vec<EpisodeSummary>,
    /// Its place among those alive; nothing while it is not.
    place: Option<usize>,
    /// Its place when the last step was played.
    acted_at: Option<usize>,
}

/// What remains of an agent that has left for good.
struct Retired {
    ledger: EpisodeStats,
    /// Nothing if it had stopped on an error.
    policy: Option<Policy>,
}

/// One turn of all agents.
#[derive(Clone, Copy)]
struct Turn<'a> {
    tables: &'a [LaneTable],
    total_steps: u64,
    is_timed: bool,
    /// Whether another step follows in this round.
    goes_on: bool,
}

impl SharedWorlds {
    /// Fresh agents in worlds from `make`.
    pub(crate) fn new(
        config: &RunConfig,
        make: &dyn Fn() -> Result<Box<dyn MultiAgentEnv>>,
    ) -> Result<Self> {
        let seeds = SeedTree::new(config.seed);
        let lanes = config.algorithm.num_envs();
        let mut worlds = Vec::new();
        for lane in 0..lanes {
            let mut world = make()?;
            world.reset(Some(seeds.child("world").seed(&format!("lane/{lane}"))))?;
            worlds.push(world);
        }
        let spec = worlds[0].spec().clone();
        let mut this = Self {
            kernel: config.kernel,
            hold: spec.action.hold(),
            nursery: AgentFactory { algorithm: config.algorithm.clone(), spec, seeds },
            lanes,
            step: 0,
            founders: worlds[0].agents().to_vec(),
            members: Vec::new(),
            retired: BTreeMap::new(),
            leaving: Vec::new(),
            tables: worlds.iter().map(|world| LaneTable::new(world.as_ref())).collect(),
            worlds,
        };
        for number in 0..this.founders.len() {
            let member = this.nursery.raise(this.founders[number])?;
            if number == 0 {
                refuse_what_does_not_fit(config, member.learner.bytes())?;
            }
            this.members.push(member);
        }
        this.take_places()?;
        this.members.iter_mut().for_each(|member| member.look(&this.tables));
        Ok(this)
    }

    fn try_advance(&mut self, target: u64, total_steps: u64) -> Result<()> {
        if self.step >= target {
            return Ok(());
        }
        for_each_agent(self.kernel, &mut self.members, |member, workspace| {
            member.with_care(|member| member.act(false, workspace));
        });
        while self.step < target && !self.has_stopped() {
            let is_timed = (self.step / self.lanes as u64).is_multiple_of(TIMED_ONE_IN);
            self.play(is_timed)?;
            self.step += self.lanes as u64;
            let has_changed = self.tables.iter().any(|table| table.has_changed);
            if has_changed {
                self.take_places()?;
            }
            let goes_on = self.step < target;
            let turn = Turn { tables: &self.tables, total_steps, is_timed, goes_on };
            for_each_agent(self.kernel, &mut self.members, |member, workspace| {
                member.with_care(|member| member.take_turn(turn, workspace));
            });
            if has_changed {
                self.retire();
            }
        }
        Ok(())
    }

    /// One step in every lane.
    fn play(&mut self, is_timed: bool) -> Result<()> {
        let Self { members, tables, worlds, hold, .. } = self;
        let alive = members.iter().filter(|member| member.place.is_some()).count();
        for (lane, table) in tables.iter_mut().enumerate() {
            table.actions.resize(alive, hold.clone());
            let acting = members.iter_mut().filter(|member| member.place.is_some());
            for (slot, member) in table.actions.iter_mut().zip(acting) {
                match member.ledger.stopped {
                    // Swapped rather than copied: an action may own memory.
                    None => std::mem::swap(slot, &mut member.actions[lane]),
                    Some(_) => slot.clone_from(hold),
                }
            }
        }
        worlds
            .par_iter_mut()
            .zip(tables.par_iter_mut())
            .for_each(|(world, table)| table.play(world.as_mut(), is_timed));
        // The first in the order of lanes, whichever thread came first.
        tables.iter_mut().find_map(|table| table.failure.take()).map_or(Ok(()), Err)
    }

    /// Gives everybody alive a place; newcomers are born here.
    fn take_places(&mut self) -> Result<()> {
        let env = self.nursery.spec.id.to_string();
        let strangers = |reason: String| Error::AgentGroup { env: env.clone(), reason };
        if self.lanes > 1 {
            let members = || self.members.iter().map(|member| &member.ledger.agent);
            if !self.worlds.iter().all(|world| world.agents().iter().eq(members())) {
                let reason = "an agent left one lane and stays in another: play a single lane";
                return Err(strangers(reason.to_owned()));
            }
        }
        self.members.iter_mut().for_each(|member| member.place = None);
        for (place, agent) in self.worlds[0].agents().iter().enumerate() {
            let found = self.members.binary_search_by_key(agent, |member| member.ledger.agent);
            let index = match found {
                Ok(index) => index,
                Err(_) if self.retired.contains_key(agent) => {
                    return Err(strangers(format!("{agent} left for good and came back")));
                }
                Err(index) => {
                    self.members.insert(index, self.nursery.raise(*agent)?);
                    index
                }
            };
            self.members[index].place = Some(place);
        }
        Ok(())
    }

    /// Lets go of those who have left for good.
    fn retire(&mut self) {
        let founders = &self.founders;
        let is_gone = |member: &mut Member| {
            member.place.is_none() && founders.binary_search(&member.ledger.agent).is_err()
        };
        for Member { ledger, learner, .. } in self.members.extract_if(.., is_gone) {
            let policy = ledger.stopped.is_none().then(|| learner.policy());
            self.leaving.push(ledger.agent);
            self.retired.insert(ledger.agent, Retired { ledger, policy });
        }
    }
}

impl AgentFactory {
    /// A fresh agent that is nowhere yet.
    fn raise(&self, agent: AgentId) -> Result<Member> {
        let seeds = self.seeds.child(&format!("agent/{}", agent.number())).child("learner");
        let context = AgentContext { agent, spec: self.spec.clone(), seeds };
        let learner = self.algorithm.build(&context)?;
        let lanes = learner.lanes();
        Ok(Member {
            ledger: EpisodeStats::new(agent),
            learner,
            obs: vec![0.0; lanes * self.spec.observation.len()],
            actions: vec![self.spec.action.hold(); lanes],
            running: vec![EpisodeSummary { episode_return: 0.0, length: 0 }; lanes],
            place: None,
            acted_at: None,
        })
    }
}

impl Member {
    /// Does something unless the agent has stopped, and stops it if that fails.
    fn with_care(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) {
        if self.ledger.stopped.is_none()
            && let Err(error) = work(self)
        {
            self.ledger.stopped = Some(error.to_string());
        }
    }

    /// Takes in what the last step led to, learns, and chooses the next actions.
    fn take_turn(&mut self, turn: Turn<'_>, workspace: &mut Workspace) -> Result<()> {
        let start = turn.is_timed.then(Instant::now);
        let has_acted = self.acted_at.is_some();
        if let Some(place) = self.acted_at {
            self.record(place, turn.tables, workspace)?;
        }
        self.look(turn.tables);
        let played = Instant::now();
        if let Some(start) = start {
            self.ledger.time.world += (played - start) * TIMED_ONE_IN as u32;
        }
        if has_acted {
            // Its own steps, not the run's: the schedules of a newcomer begin with it.
            let progress = self.ledger.step as f64 / turn.total_steps as f64;
            if let Some(learned) = self.learner.learn(progress, workspace)? {
                self.ledger.time.update += played.elapsed();
                self.ledger.learn(learned.figures);
            }
        }
        if turn.goes_on { self.act(turn.is_timed, workspace) } else { Ok(()) }
    }

    /// Takes in the step that was played at `place` of every lane.
    fn record(
        &mut self,
        place: usize,
        tables: &[LaneTable],
        workspace: &mut Workspace,
    ) -> Result<()> {
        for (lane, (table, running)) in tables.iter().zip(&mut self.running).enumerate() {
            let outcome = table.outcome(place);
            self.learner.record(lane, outcome, workspace)?;
            running.episode_return += outcome.reward;
            running.length += 1;
            if outcome.terminated || outcome.truncated {
                self.ledger.finish(*running);
                *running = EpisodeSummary { episode_return: 0.0, length: 0 };
            }
        }
        self.ledger.step += tables.len() as u64;
        Ok(())
    }

    /// Takes up its place and looks around.
    fn look(&mut self, tables: &[LaneTable]) {
        self.acted_at = self.place;
        let Some(place) = self.place else { return };
        let width = self.obs.len() / tables.len();
        for (row, table) in self.obs.chunks_exact_mut(width).zip(tables) {
            row.copy_from_slice(table.obs(place));
        }
    }

    fn act(&mut self, is_timed: bool, workspace: &mut Workspace) -> Result<()> {
        if self.place.is_none() {
            return Ok(());
        }
        let start = is_timed.then(Instant::now);
        self.learner.act(&self.obs, &mut self.actions, workspace)?;
        if let Some(start) = start {
            self.ledger.time.inference += start.elapsed() * TIMED_ONE_IN as u32;
        }
        Ok(())
    }
}

impl AgentGroup for SharedWorlds {
    fn advance(&mut self, target: u64, total: u64) {
        // A world that fails leaves nobody anything to learn from.
        if let Err(error) = self.try_advance(target, total) {
            let reason = error.to_string();
            for member in self.members.iter_mut() {
                member.ledger.stopped.get_or_insert_with(|| reason.clone());
            }
        }
    }

    fn close_round(&mut self) -> (Vec<AgentRound>, TimeSplit) {
        let mut time = TimeSplit::default();
        time.world += self.tables.iter_mut().map(|table| std::mem::take(&mut table.time)).sum();
        let members = self.members.iter_mut().map(|member| &mut member.ledger);
        let mut rounds: Vec<_> = members.map(|ledger| ledger.close_round(&mut time)).collect();
        for agent in self.leaving.drain(..) {
            let retired = self.retired.get_mut(&agent).expect("whoever leaves is kept");
            rounds.push(retired.ledger.close_round(&mut time));
        }
        rounds.sort_by_key(|round| round.agent);
        (rounds, time)
    }

    fn ledgers(&self) -> Vec<&EpisodeStats> {
        let members = self.members.iter().map(|member| &member.ledger);
        let retired = self.retired.values().map(|retired| &retired.ledger);
        let mut ledgers: Vec<_> = members.chain(retired).collect();
        ledgers.sort_by_key(|ledger| ledger.agent);
        ledgers
    }

    fn has_stopped(&self) -> bool {
        self.members.iter().all(|member| member.ledger.stopped.is_some())
    }

    fn policies(&self) -> Vec<(AgentId, Policy)> {
        let sound = self.members.iter().filter(|member| member.ledger.stopped.is_none());
        let members = sound.map(|member| (member.ledger.agent, member.learner.policy()));
        let retired = self.retired.iter();
        let retired = retired.filter_map(|(agent, kept)| Some((*agent, kept.policy.clone()?)));
        members.chain(retired).collect()
    }

    fn save(&self, out: &mut Snapshot) {
        let numbers = |agents: &mut dyn Iterator<Item = AgentId>| -> Vec<u64> {
            agents.map(|agent| u64::from(agent.number())).collect()
        };
        out.put_u64("shared/step", [self.step]);
        out.put_u64(
            "shared/members",
            numbers(&mut self.members.iter().map(|member| member.ledger.agent)),
        );
        out.put_u64("shared/retired", numbers(&mut self.retired.keys().copied()));
        for (lane, world) in self.worlds.iter().enumerate() {
            world.save(&format!("shared/lane/{lane}"), out);
        }
        for member in &self.members {
            member.save(&name_of(member.ledger.agent), out);
        }
        for (agent, Retired { ledger, policy }) in &self.retired {
            ledger.save(&name_of(*agent), out);
            let policy = policy.as_ref().map(Policy::to_bytes).unwrap_or_default();
            out.put_u8(&format!("{}/policy", name_of(*agent)), policy);
        }
    }

    fn load(&mut self, from: &Snapshot) -> Result<()> {
        let agents = |name: &str| -> Result<Vec<AgentId>> {
            let numbers = from.any_u64s(name)?.iter();
            Ok(numbers.map(|number| AgentId::new(*number as u32)).collect())
        };
        self.step = from.u64s("shared/step", 1)?[0];
        for (lane, world) in self.worlds.iter_mut().enumerate() {
            world.load(&format!("shared/lane/{lane}"), from)?;
        }
        self.members.clear();
        for agent in agents("shared/members")? {
            let mut member = self.nursery.raise(agent)?;
            member.load(&name_of(agent), from)?;
            self.members.push(member);
        }
        for agent in agents("shared/retired")? {
            let mut ledger = EpisodeStats::new(agent);
            ledger.load(&name_of(agent), from)?;
            let bytes = from.any_u8s(&format!("{}/policy", name_of(agent)))?;
            let policy = if bytes.is_empty() { None } else { Some(Policy::from_bytes(bytes)?) };
            self.retired.insert(agent, Retired { ledger, policy });
        }
        self.tables = self.worlds.iter().map(|world| LaneTable::new(world.as_ref())).collect();
        self.take_places()?;
        self.members.iter_mut().for_each(|member| member.look(&self.tables));
        Ok(())
    }
}

fn name_of(agent: AgentId) -> String {
    format!("agent/{}", agent.number())
}

impl Persist for Member {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.learner.save(&format!("{name}/learner"), out);
        self.ledger.save(name, out);
        let returns = self.running.iter().map(|running| running.episode_return);
        let lengths = self.running.iter().map(|running| running.length);
        out.put_f64(&format!("{name}/returns"), returns.collect::<Vec<_>>());
        out.put_u64(&format!("{name}/lengths"), lengths.collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.learner.load(&format!("{name}/learner"), from)?;
        self.ledger.load(name, from)?;
        let returns = from.f64s(&format!("{name}/returns"), self.running.len())?;
        let lengths = from.u64s(&format!("{name}/lengths"), self.running.len())?;
        for (running, (reached, length)) in self.running.iter_mut().zip(returns.iter().zip(lengths))
        {
            *running = EpisodeSummary { episode_return: *reached, length: *length };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
