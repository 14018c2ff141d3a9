//! One agent of a team: its learner and its run directory. The platform is the coordinator's.

use std::path::Path;
use std::time::{Duration, Instant};

use homeostat_core::{AgentId, SeedTree, Snapshot};
use homeostat_env::Action;
use homeostat_lab::{Checkpoint, Error, Result, RunConfig, RunDirectory};
use homeostat_rl::{AgentContext, AlgorithmConfig, Learner, Outcome, Ppo, Workspace};
use homeostat_simppo::{
    ActionCounts, AgentName, Change, Coordination, CoordinationError, GlobalState, Membership,
    Participant, SeatObservation, StepOutcome,
};
use serde_json::{Value, json};

use crate::provenance::provenance;

/// How long an agent runs, and in what rhythm.
#[derive(Debug, Clone)]
pub struct AgentPlan {
    /// Steps after which it leaves, those of earlier processes included.
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
    /// It has a seat, or waits for one.
    Seated(&'a Membership),
    /// How it stands.
    Status(&'a AgentStatus),
}

/// How an agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AgentStatus {
    /// Steps it has taken.
    pub step: u64,
    /// Updates of its policy.
    pub updates: u64,
    /// Mean reward of its own function since the last report.
    pub reward: Option<f64>,
    /// The team's reward in its last step.
    pub team_reward: Option<f64>,
    /// Members of the team in its last step.
    pub members: Option<usize>,
    /// Whether the coordinator is away.
    pub is_away: bool,
    /// What became of its actions.
    pub counts: ActionCounts,
}

/// Is told what an agent does, and may stop it.
pub trait AgentWatcher {
    /// Something happened.
    fn event(&mut self, event: &AgentEvent<'_>);

    /// Asked before every step; true ends the run with a checkpoint.
    fn wants_to_stop(&self) -> bool;
}

/// One agent that learns on its coordinator's platform from the reward of its team.
///
/// While the coordinator is away there is nothing to act on: the agent waits, and learns on when
/// the coordinator is back. A step whose outcome was lost is left out of what it learns from.
pub struct TeamAgent {
    config: RunConfig,
    directory: RunDirectory,
    learner: Box<dyn Learner>,
    /// Figures of the other functions that the critic sees.
    others: usize,
    /// Figures of an observation.
    width: usize,
    workspace: Workspace,
    status: AgentStatus,
    rewards: (f64, u64),
}

impl TeamAgent {
    /// An agent in its run directory: a new one, or one that goes on from its last checkpoint.
    pub fn open(
        config: RunConfig,
        name: &AgentName,
        path: &Path,
        watcher: &mut dyn AgentWatcher,
    ) -> Result<Self> {
        let out_of_range = |key: &str, value: String, expected: &str| Error::OutOfRange {
            key: key.to_owned(),
            value,
            source_text: "this run".to_owned(),
            expected: expected.to_owned(),
        };
        if !config.env_factory.is_shared(&config.env) {
            let expected = "a team needs an environment that many agents share, the one that its \
                            coordinator hosts (`homeostat env list`)";
            return Err(out_of_range("run.env", config.env, expected));
        }
        if config.algorithm.num_envs() != 1 {
            let key = format!("{}.num_envs", config.algorithm.algorithm().name());
            let expected = "an agent of a team has one seat: it must be 1";
            return Err(out_of_range(&key, config.algorithm.num_envs().to_string(), expected));
        }
        let spec = config.env_factory.spec(&config.env)?;
        let width = spec.observation.len();
        let seeds = SeedTree::new(config.seed).child(&format!("agent/{name}")).child("learner");
        let context = AgentContext { agent: AgentId::new(0), spec, seeds };
        // Only the critic of PPO can see more than its actor.
        let (learner, others): (Box<dyn Learner>, usize) = match &config.algorithm {
            AlgorithmConfig::Ppo(ppo) => {
                let extra = GlobalState::FEATURES;
                (Box::new(Ppo::with_critic_extra(ppo, &context, extra)?), extra)
            }
            other => (other.build(&context)?, 0),
        };
        let mut this = Self {
            learner,
            others,
            width,
            workspace: Workspace::new(config.kernel),
            status: AgentStatus::default(),
            rewards: (0.0, 0),
            directory: RunDirectory::open_or_create(path, "config.toml")?,
            config,
        };
        if this.directory.file("config.toml").is_file() {
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
            this.directory.write("config.toml", this.config.toml.as_bytes())?;
            this.directory.write("run.json", format!("{facts:#}\n").as_bytes())?;
        }
        this.directory.create_subdirectories()?;
        Ok(this)
    }

    /// The agent's run directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Acts and learns until the plan ends or the watcher wants to stop. Either way a checkpoint,
    /// the policy and a summary are written, and the agent leaves the team.
    pub fn run(
        mut self,
        coordination: &mut dyn Coordination,
        mut participant: Participant,
        plan: &AgentPlan,
        watcher: &mut dyn AgentWatcher,
    ) -> Result<Value> {
        let start = Instant::now();
        let (mut reported, mut saved) = (start, start);
        let mut seen: Option<SeatObservation> = None;
        let mut registrations = 0;
        let is_over = |step: u64| plan.steps.is_some_and(|steps| step >= steps);
        while !is_over(self.status.step) && !watcher.wants_to_stop() {
            let change = match seen.take() {
                Some(observation) => {
                    let action = self.choose(&observation)?;
                    let clock = || start.elapsed();
                    let step = observation.step;
                    let acted = participant.act(coordination, &clock, step, &action);
                    let (outcome, change) = acted.map_err(no_place)?;
                    if let Some(outcome) = outcome {
                        let steps = plan.steps.unwrap_or(u64::MAX);
                        self.learn(&outcome, steps)?;
                        seen = outcome.next;
                    }
                    change
                }
                None => {
                    wait(participant.next_look().saturating_sub(start.elapsed()), watcher);
                    let looked = participant.observe(coordination, start.elapsed());
                    let (observation, change) = looked.map_err(no_place)?;
                    seen = observation;
                    change
                }
            };
            if let Some(change) = change {
                watcher.event(&AgentEvent::Coordination(&change));
            }
            if participant.counts().registrations > registrations
                && let Some(membership) = participant.membership()
            {
                registrations = participant.counts().registrations;
                self.check_platform(membership)?;
                watcher.event(&AgentEvent::Seated(membership));
            }
            if reported.elapsed() >= plan.report_every {
                reported = Instant::now();
                self.report(&participant, watcher);
            }
            if saved.elapsed() >= plan.checkpoint_every {
                self.save()?;
                saved = Instant::now();
            }
        }
        self.report(&participant, watcher);
        self.save()?;
        // The coordinator may be away: then its timeout does the same.
        let _ = participant.leave(coordination);
        self.status.counts = *participant.counts();
        let ended = if is_over(self.status.step) { "finished" } else { "interrupted" };
        let summary = self.summary(ended);
        self.directory.write("summary.json", format!("{summary:#}\n").as_bytes())?;
        Ok(summary)
    }

    fn check_platform(&self, membership: &Membership) -> Result<()> {
        if membership.env == self.config.env {
            return Ok(());
        }
        let reason = format!(
            "the coordinator hosts {}, and the agent is made for {}: give it --env {}",
            membership.env, self.config.env, membership.env
        );
        Err(Error::Team { reason })
    }

    fn choose(&mut self, observation: &SeatObservation) -> Result<Action> {
        let row = self.row(&observation.state, &observation.others)?;
        let mut actions = [Action::Discrete(0)];
        self.learner.act(&row, &mut actions, &mut self.workspace)?;
        let [action] = actions;
        Ok(action)
    }

    /// What the learner sees; refused if it comes from a platform of another form.
    fn row(&self, state: &[f32], others: &[f32]) -> Result<Vec<f32>> {
        let Some(others) = others.get(..self.others).filter(|_| state.len() == self.width) else {
            let reason = format!(
                "the coordinator sends {} and {} numbers, expected {} and at least {}",
                state.len(),
                others.len(),
                self.width,
                self.others
            );
            return Err(Error::Team { reason });
        };
        Ok([state, others].concat())
    }

    fn learn(&mut self, outcome: &StepOutcome, steps: u64) -> Result<()> {
        self.status.step += 1;
        self.status.team_reward = Some(outcome.team_reward);
        self.status.members = Some(outcome.members);
        self.rewards.0 += outcome.reward;
        self.rewards.1 += 1;
        let row = self.row(&outcome.state, &outcome.others)?;
        let recorded = Outcome {
            reward: outcome.team_reward,
            terminated: outcome.terminated,
            truncated: outcome.truncated,
            next_obs: &row,
        };
        self.learner.record(0, recorded, &mut self.workspace)?;
        let progress = self.status.step as f64 / steps as f64;
        let learned = self.learner.learn(progress, &mut self.workspace)?;
        self.status.updates += u64::from(learned.is_some());
        Ok(())
    }

    fn report(&mut self, participant: &Participant, watcher: &mut dyn AgentWatcher) {
        let (sum, count) = std::mem::take(&mut self.rewards);
        self.status.reward = (count > 0).then(|| sum / count as f64);
        self.status.is_away = !participant.is_connected();
        self.status.counts = *participant.counts();
        watcher.event(&AgentEvent::Status(&self.status));
    }

    fn save(&self) -> Result<()> {
        let mut state = Snapshot::default();
        self.learner.save("agent/learner", &mut state);
        state.put_u64("agent/updates", [self.status.updates]);
        let (step, kernel) = (self.status.step, self.config.kernel);
        let checkpoint = Checkpoint::new(step, kernel, &self.config.identity, state);
        self.directory.write_checkpoint(step, &checkpoint.to_bytes())?;
        let policy = self.learner.policy().with_run(Some(provenance(&self.config, step)));
        self.directory.write("policies/agent-0.policy", &policy.to_bytes())
    }

    fn resume(&mut self, name: &AgentName, watcher: &mut dyn AgentWatcher) -> Result<()> {
        // The directory of an agent that was killed at its start has settings and nothing else.
        let facts = self.directory.read("run.json").unwrap_or_default();
        let facts: Value = serde_json::from_slice(&facts).unwrap_or_default();
        let then = facts["agent"].as_str().unwrap_or(name.as_str()).to_owned();
        if then != name.as_str() {
            let (key, now) = ("the agent's name".to_owned(), name.to_string());
            return Err(Error::SettingChanged { key, then, now });
        }
        self.directory.create_subdirectories()?;
        let Some(found) = self.directory.newest_checkpoint()? else { return Ok(()) };
        for refused in &found.refused {
            watcher.event(&AgentEvent::PassedOver(refused));
        }
        found.checkpoint.refuse_changes(&self.config)?;
        let state = found.checkpoint.state();
        self.learner.load("agent/learner", state)?;
        self.status.updates = state.u64s("agent/updates", 1)?[0];
        self.status.step = found.checkpoint.step()?;
        watcher.event(&AgentEvent::Resumed { step: self.status.step });
        Ok(())
    }

    fn summary(&self, ended: &str) -> Value {
        let AgentStatus { step, updates, team_reward, members, counts, .. } = self.status;
        json!({
            "status": ended,
            "steps": step,
            "updates": updates,
            "team_reward": team_reward,
            "members": members,
            "answered": counts.answered,
            "lost": counts.lost,
            "refused": counts.refusals.total(),
            "outages": counts.outages,
        })
    }
}

fn no_place(error: CoordinationError) -> Error {
    Error::Team { reason: error.to_string() }
}

/// Sleeps in short naps, so that a wish to stop is noticed.
fn wait(time: Duration, watcher: &dyn AgentWatcher) {
    const NAP: Duration = Duration::from_millis(50);
    let due = Instant::now() + time;
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() || watcher.wants_to_stop() {
            return;
        }
        std::thread::sleep(left.min(NAP));
    }
}
