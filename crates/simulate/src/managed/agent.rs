//! What learns: from recorded decisions, or as DDPG from what it does itself.

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_decide::AllocationTarget;
use homeostat_env::Action;
use homeostat_rl::{
    AgentContext, Learner, OfflineDataset, OfflineLearner, Outcome, Policy, Result, Sampling,
    Workspace,
};

use super::config::LearnerConfig;

/// A learner of actions on replicas, CPU and memory.
pub(super) enum Agent {
    Recorded { learner: Box<dyn OfflineLearner>, noise: f32, rng: Box<Stream> },
    Ddpg(Box<dyn Learner>),
}

impl Agent {
    pub(super) fn new(config: &LearnerConfig, noise: f32, context: &AgentContext) -> Result<Self> {
        Ok(match config {
            LearnerConfig::Recorded(config) => {
                let rng = Box::new(context.seeds.stream("exploration"));
                Self::Recorded { learner: config.build(context)?, noise, rng }
            }
            LearnerConfig::Ddpg(config) => {
                let config = homeostat_rl::AlgorithmConfig::Ddpg(config.clone());
                Self::Ddpg(config.build(context)?)
            }
        })
    }

    /// An action near the present policy's.
    pub(super) fn explore(
        &mut self,
        features: &[f32],
        workspace: &mut Workspace,
    ) -> Result<AllocationTarget> {
        match self {
            Self::Recorded { learner, noise, rng } => {
                let mut numbers = choose(&learner.policy(), features, workspace).numbers();
                numbers.iter_mut().for_each(|number| *number += *noise * rng.normal() as f32);
                Ok(AllocationTarget::from_numbers(&numbers))
            }
            Self::Ddpg(learner) => {
                let mut actions = [Action::Continuous(vec![0.0; AllocationTarget::COUNT])];
                learner.act(features, &mut actions, workspace)?;
                Ok(of_action(&actions[0]))
            }
        }
    }

    /// What followed the last exploring action.
    pub(super) fn record(
        &mut self,
        reward: f64,
        next: &[f32],
        workspace: &mut Workspace,
    ) -> Result<()> {
        let Self::Ddpg(learner) = self else { return Ok(()) };
        let outcome = Outcome { reward, terminated: false, truncated: false, next_obs: next };
        learner.record(0, outcome, workspace)
    }

    /// Gradient steps.
    pub(super) fn learn(
        &mut self,
        steps: u64,
        data: &OfflineDataset,
        workspace: &mut Workspace,
    ) -> Result<()> {
        match self {
            Self::Recorded { learner, .. } => {
                for _ in 0..steps {
                    learner.learn(data, workspace)?;
                }
            }
            Self::Ddpg(learner) => {
                learner.learn(0.0, workspace)?;
            }
        }
        Ok(())
    }

    /// The present policy.
    pub(super) fn policy(&self) -> Policy {
        match self {
            Self::Recorded { learner, .. } => learner.policy(),
            Self::Ddpg(learner) => learner.policy(),
        }
    }
}

/// The most probable action of a policy.
pub(super) fn choose(
    policy: &Policy,
    features: &[f32],
    workspace: &mut Workspace,
) -> AllocationTarget {
    // A greedy policy does not draw.
    let (mut action, mut rng) =
        (Action::Continuous(vec![0.0; AllocationTarget::COUNT]), Stream::from_seed(0));
    policy.act(features, Sampling::Greedy, &mut rng, &mut action, workspace);
    of_action(&action)
}

fn of_action(action: &Action) -> AllocationTarget {
    match action {
        Action::Continuous(numbers) => AllocationTarget::from_numbers(numbers),
        Action::Discrete(_) | Action::MultiDiscrete(_) => AllocationTarget::from_numbers(&[]),
    }
}

impl Persist for Agent {
    fn save(&self, name: &str, out: &mut Snapshot) {
        match self {
            Self::Recorded { learner, rng, .. } => {
                learner.save(&format!("{name}/learner"), out);
                rng.save(&format!("{name}/rng"), out);
            }
            Self::Ddpg(learner) => learner.save(&format!("{name}/learner"), out),
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        match self {
            Self::Recorded { learner, rng, .. } => {
                learner.load(&format!("{name}/learner"), from)?;
                rng.load(&format!("{name}/rng"), from)
            }
            Self::Ddpg(learner) => learner.load(&format!("{name}/learner"), from),
        }
    }
}
