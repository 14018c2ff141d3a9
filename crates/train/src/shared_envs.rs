//! Agents that share their environment: independent learners, or a team whose method says how
//! rewards, critics' inputs and networks are shared. [`homeostat_simppo::Training`] plays and
//! learns; here are the statistics of its agents, and the policies of those that left.
//!
//! Agents that come and go do so in one copy of the environment only: those of two copies would
//! not be the same. The agents of a fresh environment are kept when they leave, since the next
//! episode brings them back; of later agents that leave, the policy is kept.

use std::collections::BTreeMap;
use std::time::Instant;

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot};
use homeostat_env::{EpisodeSummary, MultiAgentEnv};
use homeostat_lab::{Error, Result, RunConfig, TeamMethod};
use homeostat_rl::{AgentContext, AlgorithmConfig, Policy};
use homeostat_simppo::{
    Departed, Finished, Learners, ParameterSharing, Part, TeamConfig, Training,
};

use crate::episode_stats::{AgentRound, EpisodeStats, TimeSplit};
use crate::trainer::{AgentGroup, refuse_what_does_not_fit};

/// Agents of one shared environment in training.
pub(crate) struct SharedEnvs {
    training: Training,
    num_envs: u64,
    /// Whether rewards are shared, so that what an agent learns from is worth a figure.
    is_team: bool,
    stats: BTreeMap<AgentId, EpisodeStats>,
    /// The policies of agents that left for good; nothing of one that stopped on an error.
    retired: BTreeMap<AgentId, Option<Policy>>,
    /// Agents that retired since the last report.
    leaving: Vec<AgentId>,
    /// Where this round's time went.
    time: TimeSplit,
}

impl SharedEnvs {
    /// Fresh agents in environments from `make`.
    pub(crate) fn new(
        config: &RunConfig,
        make: &dyn Fn() -> homeostat_simppo::Result<Box<dyn MultiAgentEnv>>,
    ) -> Result<Self> {
        let (learners, num_envs) = match (&config.team, &config.algorithm) {
            (Some(TeamMethod { method, .. }), AlgorithmConfig::Ppo(ppo)) => {
                let learners = Learners::Coordinated { method: method.clone(), ppo: ppo.clone() };
                (learners, method.num_envs)
            }
            (_, algorithm) => (Learners::Independent(algorithm.clone()), algorithm.num_envs()),
        };
        let has_own_networks = match &learners {
            Learners::Coordinated { method, .. } => {
                matches!(method.parameter_sharing, ParameterSharing::None | ParameterSharing::Base)
            }
            Learners::Independent(_) => true,
        };
        if has_own_networks {
            let spec = make()?.spec().clone();
            let (agent, seeds) = (AgentId::new(0), SeedTree::new(config.seed));
            let one = config.algorithm.build(&AgentContext { agent, spec, seeds })?;
            refuse_what_does_not_fit(config, one.bytes())?;
        }
        let task_types = match &learners {
            Learners::Coordinated { .. } => {
                let tasks = config.env_factory.tasks(&config.env)?;
                tasks.iter().map(|task| task.task_type).collect()
            }
            Learners::Independent(_) => Vec::new(),
        };
        let is_team = matches!(learners, Learners::Coordinated { .. });
        let training = Training::new(
            &TeamConfig {
                learners,
                task_types,
                kernel: config.kernel,
                seed: config.seed,
                total_steps: config.steps,
            },
            make,
        )?;
        let stats = training.agents().map(|agent| (agent, EpisodeStats::new(agent))).collect();
        Ok(Self {
            training,
            num_envs: num_envs as u64,
            is_team,
            stats,
            retired: BTreeMap::new(),
            leaving: Vec::new(),
            time: TimeSplit::default(),
        })
    }

    /// One step of all agents, and their statistics of it.
    fn step(&mut self) -> Result<()> {
        let acting: Vec<AgentId> = self.training.agents().collect();
        let departed = self.timed_step()?;
        for agent in acting {
            let stats = self.stats.entry(agent).or_insert_with(|| EpisodeStats::new(agent));
            if stats.stopped.is_none() {
                stats.stopped = self.training.stopped(agent).map(str::to_owned);
            }
            if stats.stopped.is_some() {
                continue;
            }
            stats.step += self.num_envs;
            if let Some(figures) = self.training.learned(agent) {
                stats.learn(figures.to_vec());
            }
        }
        for (agent, service) in self.training.last_service() {
            if let Some(stats) = self.stats.get_mut(&agent).filter(|stats| stats.stopped.is_none())
            {
                stats.serve(service);
            }
        }
        for Finished { agent, own_return, shared_return, length, .. } in
            self.training.take_finished()
        {
            let stats = self.stats.get_mut(&agent).filter(|stats| stats.stopped.is_none());
            let episode = EpisodeSummary { episode_return: own_return, length: u64::from(length) };
            match stats {
                Some(stats) if self.is_team => stats.finish_shared(episode, shared_return),
                Some(stats) => stats.finish(episode),
                None => {}
            }
        }
        for Departed { agent, policy } in departed {
            self.leaving.push(agent);
            if let (Some(stats), Err(reason)) = (self.stats.get_mut(&agent), &policy) {
                stats.stopped.get_or_insert_with(|| reason.clone());
            }
            self.retired.insert(agent, policy.ok());
        }
        for agent in self.training.agents() {
            if self.retired.contains_key(&agent) {
                let env = self.training.spec().id.to_string();
                let reason = format!("{agent} left for good and came back");
                return Err(Error::AgentGroup { env, reason });
            }
            self.stats.entry(agent).or_insert_with(|| EpisodeStats::new(agent));
        }
        Ok(())
    }

    /// Every step is timed: one reading of the clock serves all agents.
    fn timed_step(&mut self) -> homeostat_simppo::Result<Vec<Departed>> {
        let (time, mut last) = (&mut self.time, Instant::now());
        self.training.step_in_parts(&mut |part| {
            let now = Instant::now();
            let spent = now - std::mem::replace(&mut last, now);
            match part {
                Part::Choosing => time.inference += spent,
                Part::Playing => time.env += spent,
                Part::Learning => time.update += spent,
            }
        })
    }

    /// Agents that may still learn.
    fn present(&self) -> impl Iterator<Item = &EpisodeStats> {
        let stats = self.stats.values();
        stats.filter(|stats| !self.retired.contains_key(&stats.agent))
    }
}

impl AgentGroup for SharedEnvs {
    fn advance(&mut self, target: u64, _: u64) {
        while self.training.steps() < target && !self.has_stopped() {
            // No agent can learn in an environment that fails.
            if let Err(error) = self.step() {
                let reason = error.to_string();
                for stats in self.stats.values_mut() {
                    if !self.retired.contains_key(&stats.agent) {
                        stats.stopped.get_or_insert_with(|| reason.clone());
                    }
                }
            }
        }
    }

    fn close_round(&mut self) -> (Vec<AgentRound>, TimeSplit) {
        let mut time = std::mem::take(&mut self.time);
        let leaving = std::mem::take(&mut self.leaving);
        let Self { stats, retired, .. } = self;
        let has_part = |agent: &AgentId| !retired.contains_key(agent) || leaving.contains(agent);
        let rounds = stats.values_mut().filter(|stats| has_part(&stats.agent));
        let rounds = rounds.map(|stats| stats.close_round(&mut time)).collect();
        for agent in &leaving {
            stats.get_mut(agent).into_iter().for_each(EpisodeStats::retire);
        }
        (rounds, time)
    }

    fn stats(&self) -> Vec<&EpisodeStats> {
        self.stats.values().collect()
    }

    fn has_stopped(&self) -> bool {
        self.present().all(|stats| stats.stopped.is_some())
    }

    fn policies(&self) -> Vec<(AgentId, Policy)> {
        let retired = self.retired.iter();
        let retired = retired.filter_map(|(agent, policy)| Some((*agent, policy.clone()?)));
        self.training.policies().into_iter().chain(retired).collect()
    }

    fn save(&self, out: &mut Snapshot) {
        self.training.save(out);
        let numbers: Vec<u64> = self.stats.keys().map(|agent| u64::from(agent.number())).collect();
        out.put_u64("stats/agents", numbers);
        for (agent, stats) in &self.stats {
            let name = name_of(*agent);
            stats.save(&name, out);
            let policy = self.retired.get(agent);
            out.put_u64(&format!("{name}/retired"), [u64::from(policy.is_some())]);
            let bytes = policy.and_then(Option::as_ref).map(Policy::to_bytes).unwrap_or_default();
            out.put_u8(&format!("{name}/policy"), bytes);
        }
    }

    fn load(&mut self, from: &Snapshot) -> Result<()> {
        self.training.load(from)?;
        self.stats.clear();
        self.retired.clear();
        for number in from.any_u64s("stats/agents")? {
            let agent = AgentId::new(*number as u32);
            let name = name_of(agent);
            let mut stats = EpisodeStats::new(agent);
            stats.load(&name, from)?;
            self.stats.insert(agent, stats);
            if from.u64s(&format!("{name}/retired"), 1)?[0] != 0 {
                let bytes = from.any_u8s(&format!("{name}/policy"))?;
                let policy = if bytes.is_empty() { None } else { Some(Policy::from_bytes(bytes)?) };
                self.retired.insert(agent, policy);
            }
        }
        Ok(())
    }
}

fn name_of(agent: AgentId) -> String {
    format!("stats/{}", agent.number())
}

#[cfg(test)]
mod tests;
