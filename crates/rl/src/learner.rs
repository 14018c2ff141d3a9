//! The contract of one learning agent.

use homeostat_core::{AgentId, Persist, SeedTree};
use homeostat_env::{Action, EnvSpec};

use crate::{Error, Policy, Result, Workspace};

/// One agent that learns. A training loop calls `act`, then `record` for each environment, then
/// `learn`, and starts again; the [crate documentation](crate) has such a loop.
///
/// A table of values for a grid of 25 cells, after one step:
///
/// ```
/// use homeostat_core::{AgentId, SeedTree};
/// use homeostat_env::{Action, make};
/// use homeostat_nn::Kernel;
/// use homeostat_rl::{AgentContext, AlgorithmConfig, Learner, Outcome, QLearningConfig, Workspace};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut env = make("toy/grid-world-v1")?;
/// let spec = env.spec().clone();
/// let context = AgentContext { agent: AgentId::new(0), spec, seeds: SeedTree::new(1) };
/// let config = QLearningConfig { gamma: 0.0, initial_value: -2.0, ..QLearningConfig::default() };
/// let mut learner = AlgorithmConfig::QLearning(config).build(&context)?;
/// let mut workspace = Workspace::new(Kernel::best());
///
/// let start = env.reset(Some(1))?.to_vec();
/// let mut actions = [Action::Discrete(0)];
/// learner.act(&start, &mut actions, &mut workspace)?;
/// let step = env.step(&actions[0])?;
/// let outcome = Outcome {
///     reward: step.reward,
///     terminated: step.terminated,
///     truncated: step.truncated,
///     next_obs: step.obs,
/// };
/// learner.record(0, outcome, &mut workspace)?;
/// learner.learn(0.0, &mut workspace)?;
/// // A tenth of the way from -2 to the reward of -1.
/// assert!((learner.value(&start, &mut workspace) + 1.9).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
pub trait Learner: Persist + Send {
    /// Number of environments that the agent acts in at once.
    fn num_envs(&self) -> usize;

    /// Chooses an action for each environment, exploring. `obs` has one row per environment.
    fn act(&mut self, obs: &[f32], actions: &mut [Action], workspace: &mut Workspace)
    -> Result<()>;

    /// Records the outcome of the last action in one environment.
    fn record(&mut self, env: usize, outcome: Outcome<'_>, workspace: &mut Workspace)
    -> Result<()>;

    /// Whether [`Learner::learn`] may have something to do: while none of many agents has, a
    /// caller need not ask each of them.
    fn is_due(&self) -> bool {
        true
    }

    /// Updates the networks, if enough transitions were recorded since the last update. `progress`
    /// is the fraction of the training budget that is spent, for schedules.
    fn learn(&mut self, progress: f64, workspace: &mut Workspace) -> Result<Option<Learned>>;

    /// The present policy.
    fn policy(&self) -> Policy;

    /// The estimated value of a state, the discounted sum of future rewards, in the environment's
    /// units (without reward scaling).
    fn value(&self, obs: &[f32], workspace: &mut Workspace) -> f32;

    /// Memory of this agent while it trains, in bytes.
    fn bytes(&self) -> usize;
}

/// The outcome of one step in one environment.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// The reward.
    pub reward: f64,
    /// The task ended: the value of the next state is zero.
    pub terminated: bool,
    /// A limit stopped the episode: the learner bootstraps from `next_obs`.
    pub truncated: bool,
    /// The observation after the step; never the first one of the next episode.
    pub next_obs: &'a [f32],
}

/// Figures of one update, by name, for logs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Learned {
    /// Name and value, in the order of the log.
    pub figures: Vec<(&'static str, f64)>,
}

/// What an algorithm needs to build an agent.
#[derive(Debug, Clone)]
pub struct AgentContext {
    /// The agent's id.
    pub agent: AgentId,
    /// The environment it acts in.
    pub spec: EnvSpec,
    /// The root of its random streams.
    pub seeds: SeedTree,
}

/// Counts an agent's steps and rejects numbers that are not finite.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guard {
    pub(crate) agent: AgentId,
    pub(crate) step: u64,
}

impl Guard {
    pub(crate) fn new(agent: AgentId) -> Self {
        Self { agent, step: 0 }
    }

    /// Counts a step and returns its scaled reward; an error for numbers that are not finite.
    pub(crate) fn take_in(&mut self, outcome: &Outcome<'_>, reward_scale: f32) -> Result<f32> {
        self.step += 1;
        let reward = self.number("reward", outcome.reward as f32 * reward_scale)?;
        self.finite("next observation", outcome.next_obs)?;
        Ok(reward)
    }

    /// An error for the first number of `values` that is not finite.
    pub(crate) fn finite(&self, tensor: &str, values: &[f32]) -> Result<()> {
        // The sum of zero times each value is NaN exactly if one value is not finite. It
        // vectorises; the search runs only in the rare case.
        if values.iter().map(|value| value * 0.0).sum::<f32>() == 0.0 {
            return Ok(());
        }
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(self.not_finite(format!("{tensor}[{index}]"), values[index])),
            None => Ok(()),
        }
    }

    /// Returns the number, if it is finite.
    pub(crate) fn number(&self, tensor: &str, value: f32) -> Result<f32> {
        if value.is_finite() { Ok(value) } else { Err(self.not_finite(tensor.to_owned(), value)) }
    }

    pub(crate) fn not_finite(&self, tensor: String, value: f32) -> Error {
        Error::NotFinite { agent: self.agent, step: self.step, tensor, value }
    }
}
