//! Agents that learn as a team in copies of one shared world: who is paid what, what critics
//! see and who shares networks is the method's ([`homeostat_simppo::Training`]); here are their
//! books, and what remains of those who leave.

use std::collections::BTreeMap;
use std::time::Instant;

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot};
use homeostat_env::{EpisodeSummary, MultiAgentEnv};
use homeostat_lab::{Result, RunConfig, TeamMethod};
use homeostat_rl::{AgentContext, AlgorithmConfig, Policy};
use homeostat_simppo::{Departed, Finished, ParameterSharing, Part, TeamConfig, Training};

use crate::episode_stats::{AgentRound, EpisodeStats, TimeSplit};
use crate::trainer::{AgentGroup, refuse_what_does_not_fit};

/// A team in training.
pub(crate) struct CoordinatedWorlds {
    training: Training,
    /// Copies of the world.
    worlds: u64,
    ledgers: BTreeMap<AgentId, EpisodeStats>,
    /// The policies of those who have left for good; nothing of one that stopped on an error.
    retired: BTreeMap<AgentId, Option<Policy>>,
    /// Who retired since the last report.
    leaving: Vec<AgentId>,
    /// Where this round's time went.
    time: TimeSplit,
}

impl CoordinatedWorlds {
    /// A fresh team. The configuration must be one of a team.
    pub(crate) fn new(config: &RunConfig) -> Result<Self> {
        let (Some(TeamMethod { method, .. }), AlgorithmConfig::Ppo(ppo)) =
            (&config.team, &config.algorithm)
        else {
            unreachable!("whoever makes a team has read its method and the settings of PPO");
        };
        let make = || -> homeostat_simppo::Result<Box<dyn MultiAgentEnv>> {
            Ok(config.env_factory.make_multi_agent(&config.env)?)
        };
        if matches!(method.parameter_sharing, ParameterSharing::None | ParameterSharing::Base) {
            let spec = make()?.spec().clone();
            let (agent, seeds) = (AgentId::new(0), SeedTree::new(config.seed));
            let one = config.algorithm.build(&AgentContext { agent, spec, seeds })?;
            refuse_what_does_not_fit(config, one.bytes())?;
        }
        let tasks = config.env_factory.tasks(&config.env)?;
        let team = TeamConfig {
            method: method.clone(),
            ppo: ppo.clone(),
            task_types: tasks.iter().map(|task| task.task_type).collect(),
            kernel: config.kernel,
            seed: config.seed,
            total_steps: config.steps,
        };
        let training = Training::new(&team, &make)?;
        let ledgers = training.agents().map(|agent| (agent, EpisodeStats::new(agent))).collect();
        Ok(Self {
            training,
            worlds: method.num_envs as u64,
            ledgers,
            retired: BTreeMap::new(),
            leaving: Vec::new(),
            time: TimeSplit::default(),
        })
    }

    /// One step of the team, and what the books take from it.
    fn step(&mut self) -> Result<()> {
        let acting: Vec<AgentId> = self.training.agents().collect();
        let departed = self.timed_step()?;
        for agent in acting {
            let ledger = self.ledgers.entry(agent).or_insert_with(|| EpisodeStats::new(agent));
            if ledger.stopped.is_none() {
                ledger.stopped = self.training.stopped(agent).map(str::to_owned);
            }
            if ledger.stopped.is_some() {
                continue;
            }
            ledger.step += self.worlds;
            if let Some(figures) = self.training.learned(agent) {
                ledger.learn(figures.to_vec());
            }
        }
        for Finished { agent, own_return, paid_return, length, .. } in self.training.take_finished()
        {
            let ledger = self.ledgers.get_mut(&agent).filter(|ledger| ledger.stopped.is_none());
            if let Some(ledger) = ledger {
                let length = u64::from(length);
                let episode = EpisodeSummary { episode_return: own_return, length };
                ledger.finish_paid(episode, paid_return);
            }
        }
        for agent in self.training.agents() {
            self.ledgers.entry(agent).or_insert_with(|| EpisodeStats::new(agent));
        }
        for Departed { agent, policy } in departed {
            self.leaving.push(agent);
            if let (Some(ledger), Err(reason)) = (self.ledgers.get_mut(&agent), &policy) {
                ledger.stopped.get_or_insert_with(|| reason.clone());
            }
            self.retired.insert(agent, policy.ok());
        }
        Ok(())
    }

    /// Every step is timed: with everybody's in one, the clock is read next to never.
    fn timed_step(&mut self) -> homeostat_simppo::Result<Vec<Departed>> {
        let (time, mut last) = (&mut self.time, Instant::now());
        self.training.step_in_parts(&mut |part| {
            let now = Instant::now();
            let spent = now - std::mem::replace(&mut last, now);
            match part {
                Part::Choosing => time.inference += spent,
                Part::Playing => time.world += spent,
                Part::Learning => time.update += spent,
            }
        })
    }

    /// Those who may still learn.
    fn present(&self) -> impl Iterator<Item = &EpisodeStats> {
        let ledgers = self.ledgers.values();
        ledgers.filter(|ledger| !self.retired.contains_key(&ledger.agent))
    }
}

impl AgentGroup for CoordinatedWorlds {
    fn advance(&mut self, target: u64, _: u64) {
        while self.training.steps() < target && !self.has_stopped() {
            // A world that fails leaves nobody anything to learn from.
            if let Err(error) = self.step() {
                let reason = error.to_string();
                for ledger in self.ledgers.values_mut() {
                    if !self.retired.contains_key(&ledger.agent) {
                        ledger.stopped.get_or_insert_with(|| reason.clone());
                    }
                }
            }
        }
    }

    fn close_round(&mut self) -> (Vec<AgentRound>, TimeSplit) {
        let mut time = std::mem::take(&mut self.time);
        let leaving = std::mem::take(&mut self.leaving);
        let Self { ledgers, retired, .. } = self;
        let has_part = |agent: &AgentId| !retired.contains_key(agent) || leaving.contains(agent);
        let rounds = ledgers.values_mut().filter(|ledger| has_part(&ledger.agent));
        (rounds.map(|ledger| ledger.close_round(&mut time)).collect(), time)
    }

    fn ledgers(&self) -> Vec<&EpisodeStats> {
        self.ledgers.values().collect()
    }

    fn has_stopped(&self) -> bool {
        self.present().all(|ledger| ledger.stopped.is_some())
    }

    fn policies(&self) -> Vec<(AgentId, Policy)> {
        let retired = self.retired.iter();
        let retired = retired.filter_map(|(agent, policy)| Some((*agent, policy.clone()?)));
        self.training.policies().into_iter().chain(retired).collect()
    }

    fn save(&self, out: &mut Snapshot) {
        self.training.save(out);
        let numbers: Vec<u64> =
            self.ledgers.keys().map(|agent| u64::from(agent.number())).collect();
        out.put_u64("books/agents", numbers);
        for (agent, ledger) in &self.ledgers {
            let name = name_of(*agent);
            ledger.save(&name, out);
            let policy = self.retired.get(agent);
            out.put_u64(&format!("{name}/retired"), [u64::from(policy.is_some())]);
            let bytes = policy.and_then(Option::as_ref).map(Policy::to_bytes).unwrap_or_default();
            out.put_u8(&format!("{name}/policy"), bytes);
        }
    }

    fn load(&mut self, from: &Snapshot) -> Result<()> {
        self.training.load(from)?;
        self.ledgers.clear();
        self.retired.clear();
        for number in from.any_u64s("books/agents")? {
            let agent = AgentId::new(*number as u32);
            let name = name_of(agent);
            let mut ledger = EpisodeStats::new(agent);
            ledger.load(&name, from)?;
            self.ledgers.insert(agent, ledger);
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
    format!("books/{}", agent.number())
}

#[cfg(test)]
mod tests {
    use super::*;
    use homeostat_lab::{Assignment, Environments, Settings, UserLayers};

    fn team(settings: &str) -> (RunConfig, CoordinatedWorlds) {
        let flag = |setting: &str| {
            let (key, value) = setting.split_once('=').unwrap();
            Assignment::set(key, value)
        };
        let flags = settings.split_whitespace().map(flag);
        let settings =
            Settings::resolve(&Environments::builtin(), &UserLayers::of_flags(flags)).unwrap();
        let config = settings.validate().unwrap();
        let company = CoordinatedWorlds::new(&config).unwrap();
        (config, company)
    }

    const SMALL: &str = "run.algorithm=simppo faas.functions=3 faas.steps=6 run.steps=600 \
                         ppo.steps_per_update=10 ppo.hidden=[8]";

    #[test]
    fn an_agent_that_fails_is_stopped_and_the_others_go_on() {
        let (_, mut company) = team(SMALL);
        company.advance(60, 600);
        let mut state = Snapshot::default();
        company.save(&mut state);
        let weights = "team/net/1/actor/0/weight";
        let count = state.any_f32s(weights).unwrap().len();
        state.put_f32(weights, vec![f32::NAN; count]);
        company.load(&state).unwrap();
        company.advance(120, 600);
        assert!(!company.has_stopped());
        let (rounds, _) = company.close_round();
        let steps: Vec<_> = rounds.iter().map(|round| (round.step, round.episodes)).collect();
        assert_eq!(steps, [(120, 20), (60, 10), (120, 20)]);
        let reason = rounds[1].stopped.as_deref().unwrap();
        assert!(reason.starts_with("agent-1 stopped at step 60: policy output"), "{reason}");
        let sound: Vec<u32> = company.policies().iter().map(|(agent, _)| agent.number()).collect();
        assert_eq!(sound, [0, 2]);
        let mut again = Snapshot::default();
        company.save(&mut again);
        let (_, mut resumed) = team(SMALL);
        resumed.load(&again).unwrap();
        assert_eq!(resumed.ledgers()[1].stopped.as_deref(), Some(reason));
    }

    #[test]
    fn nobody_goes_on_in_a_world_that_fails() {
        // Agents come and go in two copies: a setting that is refused before it gets here.
        let (mut config, _) = team(&format!("{SMALL} faas.churn=0.5"));
        config.team.as_mut().unwrap().method.num_envs = 2;
        let mut company = CoordinatedWorlds::new(&config).unwrap();
        company.advance(600, 600);
        assert!(company.has_stopped());
        let (rounds, _) = company.close_round();
        let reason = rounds.iter().rev().find_map(|round| round.stopped.as_deref()).unwrap();
        assert!(reason.contains("play a single copy"), "{reason}");
    }
}
