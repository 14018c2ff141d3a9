//! A team in training that can be looked at: how many of its functions meet their SLO, and with
//! how many containers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use homeostat_core::{AgentId, Persist, Snapshot};
use homeostat_env::{Action, EnvSpec, MultiAgentEnv, MultiStep};
use homeostat_lab::Result;
use homeostat_nn::Kernel;
use homeostat_rl::Policy;
use homeostat_sim_faas::{FaasPlan, Fleet, Window};
use homeostat_simppo::{Learners, Preset, TeamConfig, Training};

/// A team of `simppo+` on one plan, trained episode by episode.
pub struct WatchedTeam {
    training: Training,
    tally: Arc<Tally>,
    /// Copies of the environment.
    num_envs: u64,
}

/// What was seen of an episode, means over its windows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TeamSummary {
    /// Agents.
    pub agents: usize,
    /// Functions whose SLO was met.
    pub slo_met: f64,
    /// Functions whose SLO was violated.
    pub slo_violated: f64,
    /// Fraction of requests that were late or lost.
    pub slo_violation_ratio: f64,
    /// Containers.
    pub containers: f64,
}

impl WatchedTeam {
    /// The method that is trained.
    pub const METHOD: &str = "simppo+";

    /// A fresh team for the functions of a plan.
    pub fn new(plan: &FaasPlan, seed: u64, episodes: u64) -> Result<Self> {
        let preset = Preset::by_name(Self::METHOD).expect("it is one of the methods");
        let num_envs = preset.method.num_envs as u64;
        let config = TeamConfig {
            task_types: plan.task_types()?,
            learners: Learners::Coordinated { method: preset.method, ppo: preset.ppo },
            kernel: Kernel::best(),
            seed,
            total_steps: episodes.next_multiple_of(num_envs) * u64::from(plan.config().steps),
        };
        let tally = Arc::new(Tally::default());
        let make = || -> homeostat_simppo::Result<Box<dyn MultiAgentEnv>> {
            let fleet = Fleet::with_set_points(plan.clone());
            Ok(Box::new(WatchedFleet { fleet, tally: Arc::clone(&tally) }))
        };
        let training = Training::new(&config, &make)?;
        Ok(Self { training, tally, num_envs })
    }

    /// Episodes that one call of [`WatchedTeam::play`] plays: one in each copy of the environment.
    pub fn episodes_at_once(&self) -> u64 {
        self.num_envs
    }

    /// Plays an episode in each copy of the environment, and learns from them.
    pub fn play(&mut self) -> Result<TeamSummary> {
        self.training.episode()?;
        Ok(self.tally.take(self.training.agents().count()))
    }

    /// The policy that all agents share, unless the network stopped on an error.
    pub fn policy(&self) -> Option<Policy> {
        self.training.policies().into_iter().next().map(|(_, policy)| policy)
    }
}

/// Sums of whole numbers, the same in any order: copies of the environment add to them at once.
#[derive(Default)]
struct Tally {
    windows: AtomicU64,
    slo_met: AtomicU64,
    slo_violations: AtomicU64,
    settled: AtomicU64,
    container_ms: AtomicU64,
    window_ms: AtomicU64,
}

impl Tally {
    fn add(&self, window: &Window) {
        let add = |to: &AtomicU64, number: u64| to.fetch_add(number, Ordering::Relaxed);
        add(&self.windows, 1);
        add(&self.slo_met, u64::from(window.is_slo_met()));
        add(&self.slo_violations, window.slo_violations);
        add(&self.settled, window.settled());
        add(&self.container_ms, (window.container_s * 1e3) as u64);
        add(&self.window_ms, (window.observation.window.seconds() * 1e3) as u64);
    }

    fn take(&self, agents: usize) -> TeamSummary {
        let take = |from: &AtomicU64| from.swap(0, Ordering::Relaxed) as f64;
        let windows = take(&self.windows).max(1.0);
        let slo_met = agents as f64 * take(&self.slo_met) / windows;
        TeamSummary {
            agents,
            slo_met,
            slo_violated: agents as f64 - slo_met,
            slo_violation_ratio: take(&self.slo_violations) / take(&self.settled).max(1.0),
            containers: agents as f64 * take(&self.container_ms) / take(&self.window_ms).max(1.0),
        }
    }
}

/// Set-points whose every window is counted.
struct WatchedFleet {
    fleet: Fleet,
    tally: Arc<Tally>,
}

impl MultiAgentEnv for WatchedFleet {
    fn spec(&self) -> &EnvSpec {
        self.fleet.spec()
    }

    fn agents(&self) -> &[AgentId] {
        self.fleet.agents()
    }

    fn possible_agents(&self) -> Option<&[AgentId]> {
        self.fleet.possible_agents()
    }

    fn reset(&mut self, seed: Option<u64>) -> homeostat_env::Result<()> {
        self.fleet.reset(seed)
    }

    fn observation(&self, agent: AgentId) -> Option<&[f32]> {
        self.fleet.observation(agent)
    }

    fn task(&self, agent: AgentId) -> Option<usize> {
        self.fleet.task(agent)
    }

    fn step(&mut self, actions: &[Action]) -> homeostat_env::Result<MultiStep<'_>> {
        // The window that the agents have seen; the next one is shown by the next step.
        if let Some(tenants) = self.fleet.tenants() {
            for place in 0..tenants.ids().count() {
                tenants.window(place).into_iter().for_each(|window| self.tally.add(window));
            }
        }
        self.fleet.step(actions)
    }
}

impl Persist for WatchedFleet {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.fleet.save(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.fleet.load(name, from)
    }
}
