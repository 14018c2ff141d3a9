//! Learners and worlds brought together: a fleet of agents, each in worlds of its
//! own, advanced round by round.

use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;
use std::time::{Duration, Instant};

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot};
use homeostat_env::{Action, AutoresetMode, EpisodeSummary, VecEnv, make};
use homeostat_nn::{Kernel, StateFile, decode, encode};
use homeostat_rl::{AgentContext, Learner, Outcome, Policy, Workspace, for_each_agent};
use serde_json::json;

use crate::config::RunConfig;
use crate::{Error, Result};

const CHECKPOINT_KIND: &str = "homeostat-checkpoint/1";

/// Episodes over which the recent return is averaged.
const RECENT_EPISODES: usize = 100;

/// One step in so many is timed; a prime, so that it never beats with an update's rhythm.
const TIMED_ONE_IN: u64 = 17;

/// Agents in training.
pub struct Trainer {
    kernel: Kernel,
    identity: BTreeMap<String, String>,
    total_steps: u64,
    step: u64,
    agents: Vec<AgentInTraining>,
}

struct AgentInTraining {
    id: AgentId,
    learner: Box<dyn Learner>,
    world: VecEnv,
    actions: Vec<Action>,
    step: u64,
    recent: VecDeque<f64>,
    episodes: u64,
    round: Round,
    stopped: Option<String>,
}

/// What one agent did in one round.
#[derive(Debug, Clone, Default)]
struct Round {
    finished: Vec<EpisodeSummary>,
    updates: u64,
    figures: Vec<(&'static str, f64)>,
    time: TimeSplit,
}

/// Where the time went, summed over agents.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeSplit {
    /// Stepping the worlds.
    pub world: Duration,
    /// Choosing actions.
    pub inference: Duration,
    /// Learning.
    pub update: Duration,
}

impl AddAssign for TimeSplit {
    fn add_assign(&mut self, other: Self) {
        self.world += other.world;
        self.inference += other.inference;
        self.update += other.update;
    }
}

/// One agent's figures of one round, for the log. Everything here follows from the
/// seed: two runs with the same settings write the same lines.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRound {
    /// Whose.
    pub agent: AgentId,
    /// Steps the agent has taken.
    pub step: u64,
    /// Episodes it has finished.
    pub episodes: u64,
    /// Mean return of the episodes finished in this round.
    pub round_return: Option<f64>,
    /// Mean return of the last hundred episodes.
    pub recent_return: Option<f64>,
    /// Mean length of the episodes finished in this round.
    pub round_length: Option<f64>,
    /// Mean figures of the updates in this round.
    pub figures: Vec<(&'static str, f64)>,
    /// Why the agent stopped, if it did.
    pub stopped: Option<String>,
}

impl Trainer {
    /// Fresh agents. Agent `k` depends on the seed and on `k` alone, not on how
    /// many others there are.
    pub fn new(config: &RunConfig) -> Result<Self> {
        let spec = make(&config.env)?.spec().clone();
        let seeds = SeedTree::new(config.seed);
        let mut agents = Vec::new();
        for number in 0..config.agents {
            let seeds = seeds.child(&format!("agent/{number}"));
            let agent = AgentId::new(number);
            let context = AgentContext { agent, spec: spec.clone(), seeds: seeds.child("learner") };
            let learner = config.algorithm.build(&context)?;
            let lanes = learner.lanes();
            let make = || make(&config.env);
            let world = VecEnv::new(make, lanes, AutoresetMode::SameStep, &seeds.child("world"))?;
            if number == 0 {
                refuse_what_does_not_fit(config, learner.bytes())?;
            }
            agents.push(AgentInTraining {
                id: agent,
                learner,
                world,
                actions: vec![Action::Discrete(0); lanes],
                step: 0,
                recent: VecDeque::new(),
                episodes: 0,
                round: Round::default(),
                stopped: None,
            });
        }
        Ok(Self {
            kernel: config.kernel,
            identity: config.identity.clone(),
            total_steps: config.steps,
            step: 0,
            agents,
        })
    }

    /// Agents as a checkpoint left them. Settings that would make it another run are
    /// refused by name.
    pub fn restore(config: &RunConfig, checkpoint: &Checkpoint) -> Result<Self> {
        checkpoint.refuse_changes(config)?;
        let mut this = Self::new(config)?;
        this.step = checkpoint.step()?;
        for agent in &mut this.agents {
            agent.load(&format!("agent/{}", agent.id.number()), &checkpoint.file.arrays)?;
        }
        Ok(this)
    }

    /// The whole state.
    pub fn checkpoint(&self) -> Checkpoint {
        let mut arrays = Snapshot::default();
        arrays.put_u64("step", [self.step]);
        for agent in &self.agents {
            agent.save(&format!("agent/{}", agent.id.number()), &mut arrays);
        }
        let header = json!({
            "homeostat": env!("CARGO_PKG_VERSION"),
            "step": self.step,
            "kernel": self.kernel.to_string(),
            "settings": self.identity,
        });
        let kind = CHECKPOINT_KIND.to_owned();
        Checkpoint { file: StateFile { kind, header, arrays, ..StateFile::default() } }
    }

    /// Steps that each agent has taken.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Whether the budget is spent, or nobody is left to spend it.
    pub fn is_done(&self) -> bool {
        self.step >= self.total_steps || self.agents.iter().all(|agent| agent.stopped.is_some())
    }

    /// Advances every agent by up to `steps` steps (rounded up to whole lanes), all
    /// agents at once. An agent that fails is stopped; the others go on.
    pub fn round(&mut self, steps: u64) -> (Vec<AgentRound>, TimeSplit) {
        let target = (self.step + steps).min(self.total_steps);
        let total = self.total_steps;
        for_each_agent(self.kernel, &mut self.agents, |agent, workspace| {
            if agent.stopped.is_none()
                && let Err(error) = agent.advance(target, total, workspace)
            {
                agent.stopped = Some(error.to_string());
            }
        });
        self.step = target;
        let mut time = TimeSplit::default();
        let reports = self.agents.iter_mut().map(|agent| {
            let round = std::mem::take(&mut agent.round);
            time += round.time;
            agent.report(&round)
        });
        (reports.collect(), time)
    }

    /// Every agent's standing, without playing on.
    pub fn standing(&self) -> Vec<AgentRound> {
        self.agents.iter().map(|agent| agent.report(&Round::default())).collect()
    }

    /// Every agent's policy as it is now; one that stopped on an error has none to trust.
    pub fn policies(&self) -> Vec<(AgentId, Policy)> {
        let sound = self.agents.iter().filter(|agent| agent.stopped.is_none());
        sound.map(|agent| (agent.id, agent.learner.policy())).collect()
    }

    /// Number of agents.
    pub fn agents(&self) -> usize {
        self.agents.len()
    }
}

/// A fleet that exceeds the free memory is refused before it is built, where the
/// system tells how much there is.
fn refuse_what_does_not_fit(config: &RunConfig, bytes_per_agent: usize) -> Result<()> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes =
        line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let Some(free) = kibibytes.map(|kibibytes| kibibytes * 1024) else { return Ok(()) };
    let needed = u64::from(config.agents).saturating_mul(bytes_per_agent as u64);
    if needed <= free {
        return Ok(());
    }
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    Err(Error::OutOfRange {
        key: "run.agents".to_owned(),
        value: config.agents.to_string(),
        source_text: "this run".to_owned(),
        expected: format!(
            "it needs {:.1} GB, and {:.1} GB are free here",
            gigabytes(needed),
            gigabytes(free)
        ),
    })
}

impl AgentInTraining {
    fn advance(&mut self, target: u64, total: u64, workspace: &mut Workspace) -> Result<()> {
        let lanes = self.world.lanes() as u64;
        while self.step < target {
            let is_timed = (self.step / lanes).is_multiple_of(TIMED_ONE_IN);
            let start = is_timed.then(Instant::now);
            self.learner.act(self.world.obs(), &mut self.actions, workspace)?;
            let acted = is_timed.then(Instant::now);
            self.play(workspace)?;
            self.step += lanes;
            let played = Instant::now();
            if let (Some(start), Some(acted)) = (start, acted) {
                self.round.time.inference += (acted - start) * TIMED_ONE_IN as u32;
                self.round.time.world += (played - acted) * TIMED_ONE_IN as u32;
            }
            if let Some(learned) = self.learner.learn(self.step as f64 / total as f64, workspace)? {
                self.round.time.update += played.elapsed();
                self.round.add(learned.figures);
            }
        }
        Ok(())
    }

    /// One step in every lane.
    fn play(&mut self, workspace: &mut Workspace) -> Result<()> {
        let Self { learner, world, actions, round, recent, episodes, .. } = self;
        let mut failure = None;
        world.step(actions, |lane, step| {
            let outcome = Outcome {
                reward: step.reward,
                terminated: step.terminated,
                truncated: step.truncated,
                next_obs: step.final_obs,
            };
            if let Err(error) = learner.record(lane, outcome, workspace) {
                failure.get_or_insert(error);
            }
            if let Some(episode) = step.episode {
                *episodes += 1;
                round.finished.push(episode);
                recent.push_back(episode.episode_return);
                if recent.len() > RECENT_EPISODES {
                    recent.pop_front();
                }
            }
        })?;
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    fn report(&self, round: &Round) -> AgentRound {
        let mean = |values: &mut dyn Iterator<Item = f64>, count: usize| {
            (count > 0).then(|| values.sum::<f64>() / count as f64)
        };
        let finished = &round.finished;
        AgentRound {
            agent: self.id,
            step: self.step,
            episodes: self.episodes,
            round_return: mean(
                &mut finished.iter().map(|episode| episode.episode_return),
                finished.len(),
            ),
            recent_return: mean(&mut self.recent.iter().copied(), self.recent.len()),
            round_length: mean(
                &mut finished.iter().map(|episode| episode.length as f64),
                finished.len(),
            ),
            figures: round
                .figures
                .iter()
                .map(|(name, sum)| (*name, sum / round.updates as f64))
                .collect(),
            stopped: self.stopped.clone(),
        }
    }
}

impl Round {
    /// Adds up the figures of an update; the report divides by their number.
    fn add(&mut self, figures: Vec<(&'static str, f64)>) {
        self.updates += 1;
        if self.figures.is_empty() {
            self.figures = figures;
        } else {
            self.figures.iter_mut().zip(figures).for_each(|(sum, figure)| sum.1 += figure.1);
        }
    }
}

impl Persist for AgentInTraining {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.learner.save(&format!("{name}/learner"), out);
        self.world.save(&format!("{name}/world"), out);
        out.put_u64(&format!("{name}/clock"), [self.step, self.episodes]);
        out.put_f64(&format!("{name}/recent"), self.recent.iter().copied().collect::<Vec<_>>());
        out.put_u8(
            &format!("{name}/stopped"),
            self.stopped.as_deref().unwrap_or_default().as_bytes(),
        );
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.learner.load(&format!("{name}/learner"), from)?;
        self.world.load(&format!("{name}/world"), from)?;
        let clock = from.u64s(&format!("{name}/clock"), 2)?;
        [self.step, self.episodes] = [clock[0], clock[1]];
        self.recent = from.any_f64s(&format!("{name}/recent"))?.iter().copied().collect();
        let stopped =
            String::from_utf8_lossy(from.any_u8s(&format!("{name}/stopped"))?).into_owned();
        self.stopped = (!stopped.is_empty()).then_some(stopped);
        Ok(())
    }
}

/// The whole state of a run.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    file: StateFile,
}

impl Checkpoint {
    /// Reads a checkpoint, or says why it cannot be trusted.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let this = Self { file: decode(bytes, CHECKPOINT_KIND)? };
        this.step()?;
        Ok(this)
    }

    /// The bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        encode(&self.file)
    }

    /// Steps that each agent had taken.
    pub fn step(&self) -> Result<u64> {
        Ok(self.file.arrays.u64s("step", 1)?[0])
    }

    /// The kernel it was trained on.
    pub fn kernel(&self) -> &str {
        self.file.header["kernel"].as_str().unwrap_or("unknown")
    }

    fn refuse_changes(&self, config: &RunConfig) -> Result<()> {
        for (key, now) in &config.identity {
            let then = self.file.header["settings"][key.as_str()].as_str().unwrap_or("absent");
            if then != now {
                let (key, then, now) = (key.clone(), then.to_owned(), now.clone());
                return Err(Error::SettingChanged { key, then, now });
            }
        }
        Ok(())
    }
}
