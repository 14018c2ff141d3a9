//! Agents that share nothing: each has environments of its own, and its whole training is one
//! task.

use std::time::Instant;

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot};
use homeostat_env::{Action, AutoresetMode, ServiceTotals, SubEnvStep, VecEnv};
use homeostat_lab::{Result, RunConfig};
use homeostat_nn::Kernel;
use homeostat_rl::{AgentContext, Learner, Outcome, Policy, Workspace, for_each_agent};

use crate::episode_stats::{AgentRound, EpisodeStats, TIMED_ONE_IN, TimeSplit};
use crate::trainer::{AgentGroup, refuse_what_does_not_fit};

/// Agents with environments of their own.
pub(crate) struct SeparateEnvs {
    kernel: Kernel,
    agents: Vec<AgentInTraining>,
}

struct AgentInTraining {
    stats: EpisodeStats,
    learner: Box<dyn Learner>,
    env: VecEnv,
    actions: Vec<Action>,
    /// Whether its environments are stepped on several threads.
    on_threads: bool,
}

impl SeparateEnvs {
    pub(crate) fn new(config: &RunConfig) -> Result<Self> {
        let spec = config.env_factory.make(&config.env, 0)?.spec().clone();
        let seeds = SeedTree::new(config.seed);
        let mut agents = Vec::new();
        for number in 0..config.agents {
            let seeds = seeds.child(&format!("agent/{number}"));
            let agent = AgentId::new(number);
            let context = AgentContext { agent, spec: spec.clone(), seeds: seeds.child("learner") };
            let learner = config.algorithm.build(&context)?;
            let envs = learner.num_envs();
            let make = || config.env_factory.make(&config.env, number);
            let env = VecEnv::new(make, envs, AutoresetMode::SameStep, &seeds.child("world"))?;
            if number == 0 {
                refuse_what_does_not_fit(config, learner.bytes())?;
            }
            agents.push(AgentInTraining {
                stats: EpisodeStats::new(agent),
                learner,
                env,
                actions: vec![Action::Discrete(0); envs],
                on_threads: false,
            });
        }
        Ok(Self { kernel: config.kernel, agents })
    }
}

impl AgentGroup for SeparateEnvs {
    fn advance(&mut self, target: u64, total: u64) {
        let has_threads_to_spare = rayon::current_num_threads() > self.agents.len();
        for_each_agent(self.kernel, &mut self.agents, |agent, workspace| {
            agent.on_threads = has_threads_to_spare && agent.env.are_worth_threads();
            if agent.stats.stopped.is_none()
                && let Err(error) = agent.advance(target, total, workspace)
            {
                agent.stats.stopped = Some(error.to_string());
            }
        });
    }

    fn close_round(&mut self) -> (Vec<AgentRound>, TimeSplit) {
        let mut time = TimeSplit::default();
        let reports = self.agents.iter_mut().map(|agent| agent.stats.close_round(&mut time));
        (reports.collect(), time)
    }

    fn stats(&self) -> Vec<&EpisodeStats> {
        self.agents.iter().map(|agent| &agent.stats).collect()
    }

    fn has_stopped(&self) -> bool {
        self.agents.iter().all(|agent| agent.stats.stopped.is_some())
    }

    fn policies(&self) -> Vec<(AgentId, Policy)> {
        let sound = self.agents.iter().filter(|agent| agent.stats.stopped.is_none());
        sound.map(|agent| (agent.stats.agent, agent.learner.policy())).collect()
    }

    fn save(&self, out: &mut Snapshot) {
        for agent in &self.agents {
            agent.save(&format!("agent/{}", agent.stats.agent.number()), out);
        }
    }

    fn load(&mut self, from: &Snapshot) -> Result<()> {
        for agent in &mut self.agents {
            agent.load(&format!("agent/{}", agent.stats.agent.number()), from)?;
        }
        Ok(())
    }
}

impl AgentInTraining {
    fn advance(&mut self, target: u64, total: u64, workspace: &mut Workspace) -> Result<()> {
        let envs = self.env.num_envs() as u64;
        while self.stats.step < target {
            let is_timed = (self.stats.step / envs).is_multiple_of(TIMED_ONE_IN);
            let start = is_timed.then(Instant::now);
            self.learner.act(self.env.obs(), &mut self.actions, workspace)?;
            let acted = is_timed.then(Instant::now);
            self.play(workspace)?;
            self.stats.step += envs;
            let played = Instant::now();
            if let (Some(start), Some(acted)) = (start, acted) {
                self.stats.time.inference += (acted - start) * TIMED_ONE_IN as u32;
                self.stats.time.env += (played - acted) * TIMED_ONE_IN as u32;
            }
            let progress = self.stats.step as f64 / total as f64;
            if let Some(learned) = self.learner.learn(progress, workspace)? {
                self.stats.time.update += played.elapsed();
                self.stats.learn(learned.figures);
            }
        }
        Ok(())
    }

    /// One step in every environment.
    fn play(&mut self, workspace: &mut Workspace) -> Result<()> {
        let Self { stats, learner, env, actions, on_threads } = self;
        let mut failure = None;
        let each = |number: usize, step: SubEnvStep<'_>| {
            let outcome = Outcome {
                reward: step.reward,
                terminated: step.terminated,
                truncated: step.truncated,
                next_obs: step.final_obs,
            };
            if let Err(error) = learner.record(number, outcome, workspace) {
                failure.get_or_insert(error);
            }
            stats.serve(ServiceTotals::of_info(&step.info));
            if let Some(episode) = step.episode {
                stats.finish(episode);
            }
        };
        if *on_threads {
            env.step_on_threads(actions, each)?;
        } else {
            env.step(actions, each)?;
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }
}

impl Persist for AgentInTraining {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.learner.save(&format!("{name}/learner"), out);
        self.env.save(&format!("{name}/world"), out);
        self.stats.save(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.learner.load(&format!("{name}/learner"), from)?;
        self.env.load(&format!("{name}/world"), from)?;
        self.stats.load(name, from)
    }
}
