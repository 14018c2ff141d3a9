//! One agent of a team: its world, its learner, its run folder.

use std::path::Path;
use std::time::{Duration, Instant};

use homeostat_core::{AgentId, Persist, SeedTree, Snapshot, Stream};
use homeostat_decide::{Features, ScalingAction};
use homeostat_env::{Action, AutoresetMode, Space, VecEnv};
use homeostat_lab::{Checkpoint, Error, Result, RunConfig, RunFolder};
use homeostat_rl::{
    AgentContext, AlgorithmConfig, Learner, Outcome, Policy, Ppo, Sampling, Workspace,
};
use homeostat_simppo::{AgentName, Change, DeliveryCounts, GlobalState, Guidance};
use serde_json::{Value, json};

use crate::team::Link;

/// How long an agent runs, and in what rhythm.
#[derive(Debug, Clone)]
pub struct AgentPlan {
    /// Time from one step to the next; nothing for as fast as it goes.
    pub pace: Duration,
    /// Steps after which it leaves, those of earlier lives included.
    pub steps: Option<u64>,
    /// Time between two checkpoints.
    pub checkpoint_every: Duration,
    /// Time between two reports.
    pub report_every: Duration,
}

/// Something worth a line.
#[derive(Debug, Clone)]
pub enum AgentEvent<'a> {
    /// A damaged checkpoint was passed over, and why.
    PassedOver(&'a str),
    /// The agent goes on from a checkpoint.
    Resumed {
        /// Steps it had taken.
        step: u64,
    },
    /// It stands otherwise with its coordinator.
    Coordination(&'a Change),
    /// How it stands.
    Status(&'a AgentStatus),
}

/// How an agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AgentStatus {
    /// Steps it has taken.
    pub step: u64,
    /// Steps that it learnt from.
    pub learned: u64,
    /// Updates of its policy.
    pub updates: u64,
    /// Mean of its own rewards since the last report.
    pub reward: Option<f64>,
    /// The team's reward after its last delivered step.
    pub team_reward: Option<f64>,
    /// Members of the team, as of the same moment.
    pub members: Option<usize>,
    /// Whether the coordinator is away.
    pub is_away: bool,
    /// What became of its transitions.
    pub counts: DeliveryCounts,
}

/// Whoever watches an agent.
pub trait AgentWatcher {
    /// Something happened.
    fn event(&mut self, event: &AgentEvent<'_>);

    /// Asked before every step; true ends the run with a checkpoint.
    fn wants_to_stop(&self) -> bool;
}

/// Agents that a sum over the others is measured against, so that a network's inputs stay near
/// one: an agent does not know how large its team will be.
const USUAL_TEAM: f64 = 12.0;

/// One agent that learns in a world of its own from the reward of its team.
///
/// While the coordinator is away it acts by the policy it had, and learns nothing: its own reward
/// alone would teach it to push the others aside.
pub struct TeamAgent {
    config: RunConfig,
    folder: RunFolder,
    learner: Box<dyn Learner>,
    /// What the critic sees of the others: the global state of the last delivered step. Empty
    /// where the algorithm's critic sees nothing beyond its state.
    others: Vec<f32>,
    world: VecEnv,
    workspace: Workspace,
    actions: Vec<Action>,
    /// Draws the actions while the coordinator is away.
    rng: Stream,
    /// The policy to act by while the coordinator is away.
    frozen: Option<Policy>,
    team: Option<Guidance>,
    status: AgentStatus,
    rewards: (f64, u64),
}

/// What a step led to.
struct Played {
    action: u32,
    reward: f64,
    terminated: bool,
    truncated: bool,
    next_obs: Vec<f32>,
}

impl TeamAgent {
    /// An agent in its run folder: a new one, or one that goes on from its last checkpoint.
    pub fn open(
        config: RunConfig,
        name: &AgentName,
        path: &Path,
        watcher: &mut dyn AgentWatcher,
    ) -> Result<Self> {
        let spec = config.env_factory.make(&config.env, 0)?.spec().clone();
        let is_suited = spec.observation.len() == Features::COUNT
            && spec.action == Space::Discrete(ScalingAction::ALL.len());
        if !is_suited {
            return Err(Error::OutOfRange {
                key: "run.env".to_owned(),
                value: config.env.clone(),
                source_text: "this run".to_owned(),
                expected: "a team's agent needs the observations and actions of autoscaling, as \
                           those of a function alone or among others (`homeostat env list`)"
                    .to_owned(),
            });
        }
        if config.algorithm.num_envs() != 1 {
            return Err(Error::OutOfRange {
                key: format!("{}.num_envs", config.algorithm.algorithm().name()),
                value: config.algorithm.num_envs().to_string(),
                source_text: "this run".to_owned(),
                expected: "an agent of a team plays one world: it must be 1".to_owned(),
            });
        }
        let seeds = SeedTree::new(config.seed).child(&format!("agent/{name}"));
        let agent = AgentId::new(0);
        let context = AgentContext { agent, spec, seeds: seeds.child("learner") };
        let make = || config.env_factory.make(&config.env, 0);
        let mut this = Self {
            others: match &config.algorithm {
                AlgorithmConfig::Ppo(_) => vec![0.0; GlobalState::FEATURES],
                _ => Vec::new(),
            },
            learner: match &config.algorithm {
                AlgorithmConfig::Ppo(ppo) => {
                    Box::new(Ppo::with_critic_extra(ppo, &context, GlobalState::FEATURES)?)
                }
                other => other.build(&context)?,
            },
            world: VecEnv::new(make, 1, AutoresetMode::SameStep, &seeds.child("world"))?,
            workspace: Workspace::new(config.kernel),
            actions: vec![Action::Discrete(0)],
            rng: seeds.stream("alone"),
            frozen: None,
            team: None,
            status: AgentStatus::default(),
            rewards: (0.0, 0),
            folder: RunFolder::open_or_create(path, "config.toml")?,
            config,
        };
        if this.folder.file("config.toml").is_file() {
            this.resume(name, watcher)?;
        } else {
            let facts = json!({
                "homeostat": env!("CARGO_PKG_VERSION"),
                "agent": name.as_str(),
                "algorithm": this.config.algorithm.algorithm().name(),
                "env": this.config.env,
                "seed": this.config.seed,
                "kernel": this.config.kernel.to_string(),
            });
            this.folder.write("config.toml", this.config.toml.as_bytes())?;
            this.folder.write("run.json", format!("{facts:#}\n").as_bytes())?;
        }
        this.folder.create_folders()?;
        Ok(this)
    }

    /// What the team looked like after its last delivered step.
    pub fn team(&self) -> Option<&Guidance> {
        self.team.as_ref()
    }

    /// The agent's run folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Acts and learns until the plan ends or the watcher wants to stop. Either way a checkpoint,
    /// the policy and a summary are written, and the agent leaves the team.
    pub fn run(
        mut self,
        mut link: Link,
        plan: &AgentPlan,
        watcher: &mut dyn AgentWatcher,
    ) -> Result<Value> {
        let mut next_step = Instant::now();
        let (mut reported, mut saved) = (next_step, next_step);
        let is_over = |step: u64| plan.steps.is_some_and(|steps| step >= steps);
        while !is_over(self.status.step) && !watcher.wants_to_stop() {
            let played = self.play()?;
            let exchanged = link.exchange(&played.next_obs, played.action, played.reward);
            let guidance = exchanged.map_err(|error| Error::Team { reason: error.to_string() })?;
            let progress = plan.steps.map_or(0.0, |steps| self.status.step as f64 / steps as f64);
            self.learn(&played, guidance, progress)?;
            for change in link.take_changes() {
                watcher.event(&AgentEvent::Coordination(&change));
            }
            if reported.elapsed() >= plan.report_every {
                reported = Instant::now();
                self.report(&link, watcher);
            }
            if saved.elapsed() >= plan.checkpoint_every {
                self.save()?;
                saved = Instant::now();
            }
            next_step = wait_until(next_step + plan.pace, watcher);
        }
        self.report(&link, watcher);
        self.save()?;
        self.status.counts = link.leave();
        let ended = if is_over(self.status.step) { "finished" } else { "interrupted" };
        let summary = self.summary(ended);
        self.folder.write("summary.json", format!("{summary:#}\n").as_bytes())?;
        Ok(summary)
    }

    fn play(&mut self) -> Result<Played> {
        match &self.frozen {
            Some(policy) => {
                let (obs, sampling) = (self.world.obs(), Sampling::Stochastic);
                let action = &mut self.actions[0];
                policy.act(obs, sampling, &mut self.rng, action, &mut self.workspace);
            }
            None => {
                let row = [self.world.obs(), &self.others].concat();
                self.learner.act(&row, &mut self.actions, &mut self.workspace)?;
            }
        }
        let action = self.actions[0].discrete().expect("the space was looked at") as u32;
        let mut played = None;
        self.world.step(&self.actions, |_, step| {
            played = Some(Played {
                action,
                reward: step.reward,
                terminated: step.terminated,
                truncated: step.truncated,
                next_obs: step.final_obs.to_vec(),
            });
        })?;
        let played = played.expect("one lane was played");
        self.status.step += 1;
        self.rewards.0 += played.reward;
        self.rewards.1 += 1;
        Ok(played)
    }

    fn learn(&mut self, played: &Played, guidance: Option<Guidance>, progress: f64) -> Result<()> {
        self.team = guidance.or(self.team);
        if let Some(guidance) = guidance.filter(|_| !self.others.is_empty()) {
            self.others = guidance.global.features(USUAL_TEAM).to_vec();
        }
        let (reward, is_cut) = match (guidance, &self.frozen) {
            (Some(guidance), None) => (guidance.team_reward, false),
            // The step in which the team fell silent ends what can be learnt from. Its own reward
            // stands in for the team's, this once: the critic takes over behind it.
            (None, None) => (played.reward, true),
            (Some(_), Some(_)) => {
                self.frozen = None;
                return Ok(());
            }
            (None, Some(_)) => return Ok(()),
        };
        let row = [played.next_obs.as_slice(), &self.others].concat();
        let outcome = Outcome {
            reward,
            terminated: played.terminated,
            truncated: played.truncated || is_cut,
            next_obs: &row,
        };
        self.learner.record(0, outcome, &mut self.workspace)?;
        self.status.learned += 1;
        let learned = self.learner.learn(progress, &mut self.workspace)?;
        self.status.updates += u64::from(learned.is_some());
        if is_cut {
            self.frozen = Some(self.learner.policy());
        }
        Ok(())
    }

    fn report(&mut self, link: &Link, watcher: &mut dyn AgentWatcher) {
        let (sum, count) = std::mem::take(&mut self.rewards);
        self.status = AgentStatus {
            reward: (count > 0).then(|| sum / count as f64),
            team_reward: self.team.map(|team| team.team_reward),
            members: self.team.map(|team| team.members),
            is_away: link.is_away(),
            counts: link.counts(),
            ..self.status
        };
        watcher.event(&AgentEvent::Status(&self.status));
    }

    fn save(&self) -> Result<()> {
        let mut state = Snapshot::default();
        self.learner.save("agent/learner", &mut state);
        self.world.save("agent/world", &mut state);
        self.rng.save("agent/alone", &mut state);
        state.put_f32("agent/others", self.others.as_slice());
        state.put_u64("agent/learned", [self.status.learned, self.status.updates]);
        let (step, kernel) = (self.status.step, self.config.kernel);
        let checkpoint = Checkpoint::new(step, kernel, &self.config.identity, state);
        self.folder.write_checkpoint(step, &checkpoint.to_bytes())?;
        self.folder.write("policies/agent-0.policy", &self.learner.policy().to_bytes())
    }

    fn resume(&mut self, name: &AgentName, watcher: &mut dyn AgentWatcher) -> Result<()> {
        // A folder whose agent was killed at birth has settings and nothing else.
        let facts = self.folder.read("run.json").unwrap_or_default();
        let facts: Value = serde_json::from_slice(&facts).unwrap_or_default();
        let then = facts["agent"].as_str().unwrap_or(name.as_str()).to_owned();
        if then != name.as_str() {
            let (key, now) = ("the agent's name".to_owned(), name.to_string());
            return Err(Error::SettingChanged { key, then, now });
        }
        self.folder.create_folders()?;
        let Some(found) = self.folder.newest_checkpoint()? else { return Ok(()) };
        for refused in &found.refused {
            watcher.event(&AgentEvent::PassedOver(refused));
        }
        found.checkpoint.refuse_changes(&self.config)?;
        let state = found.checkpoint.state();
        self.learner.load("agent/learner", state)?;
        self.world.load("agent/world", state)?;
        self.rng.load("agent/alone", state)?;
        state.copy_f32s("agent/others", &mut self.others)?;
        let counts = state.u64s("agent/learned", 2)?;
        [self.status.learned, self.status.updates] = [counts[0], counts[1]];
        self.status.step = found.checkpoint.step()?;
        watcher.event(&AgentEvent::Resumed { step: self.status.step });
        Ok(())
    }

    fn summary(&self, ended: &str) -> Value {
        let AgentStatus { step, learned, updates, team_reward, members, counts, .. } = self.status;
        json!({
            "status": ended,
            "steps": step,
            "learned": learned,
            "updates": updates,
            "team_reward": team_reward,
            "members": members,
            "delivered": counts.delivered,
            "undelivered": counts.undelivered,
            "refused": counts.refusals.total(),
            "outages": counts.outages,
        })
    }
}

/// Sleeps in short naps, so that a wish to stop is noticed. An agent that cannot keep its pace
/// does not hurry afterwards.
fn wait_until(due: Instant, watcher: &dyn AgentWatcher) -> Instant {
    const NAP: Duration = Duration::from_millis(50);
    loop {
        let now = Instant::now();
        let left = due.saturating_duration_since(now);
        if left.is_zero() || watcher.wants_to_stop() {
            return now.max(due);
        }
        std::thread::sleep(left.min(NAP));
    }
}
