//! The base learners: those that read an embedding, and the recurrent one that needs none.

use homeostat_core::{Persist, Snapshot};
use homeostat_env::Action;
use homeostat_rl::{ConditionedLearner, Outcome, RecurrentPpo, Sampling, Workspace};

use crate::Result;

pub(crate) enum BaseLearner {
    /// PPO, DQN or DDPG that reads embeddings; embeddings of no numbers, if it is told nothing.
    Conditioned(Box<dyn ConditionedLearner>),
    /// RL².
    Recurrent(Box<RecurrentPpo>),
}

impl BaseLearner {
    /// Slots of environments become these pairs.
    pub(crate) fn visit(&mut self, places: &[usize]) {
        match self {
            Self::Conditioned(learner) => {
                let table = learner.embeddings_mut();
                places.iter().enumerate().for_each(|(slot, place)| table.assign(slot, *place));
            }
            Self::Recurrent(learner) => (0..places.len()).for_each(|slot| learner.forget(slot)),
        }
    }

    pub(crate) fn set_embedding(&mut self, place: usize, embedding: &[f32]) {
        if let Self::Conditioned(learner) = self {
            learner.embeddings_mut().set(place, embedding);
        }
    }

    /// The gradient of the losses by an embedding since the last update.
    pub(crate) fn gradient(&self, place: usize, out: &mut [f32]) {
        if let Self::Conditioned(learner) = self {
            learner.embeddings().gradient(place, out);
        }
    }

    pub(crate) fn clear_gradients(&mut self) {
        if let Self::Conditioned(learner) = self {
            learner.embeddings_mut().clear_gradients();
        }
    }

    pub(crate) fn act(
        &mut self,
        obs: &[f32],
        actions: &mut [Action],
        workspace: &mut Workspace,
    ) -> Result<()> {
        match self {
            Self::Conditioned(learner) => learner.act(obs, actions, workspace)?,
            Self::Recurrent(learner) => {
                let rows = obs.chunks_exact(obs.len() / actions.len());
                for (env, (action, row)) in actions.iter_mut().zip(rows).enumerate() {
                    learner.act_in(env, row, Sampling::Stochastic, action, workspace)?;
                }
            }
        }
        Ok(())
    }

    /// Records an outcome. `seen` is the reward as a meta learner or a recurrent policy reads it.
    pub(crate) fn record(
        &mut self,
        env: usize,
        action: &Action,
        seen: f32,
        outcome: Outcome<'_>,
        workspace: &mut Workspace,
    ) -> Result<()> {
        match self {
            Self::Conditioned(learner) => learner.record(env, outcome, workspace)?,
            Self::Recurrent(learner) => {
                let has_ended = outcome.terminated || outcome.truncated;
                learner.remember(env, action, seen, has_ended);
                learner.record(env, outcome, workspace)?;
            }
        }
        Ok(())
    }

    pub(crate) fn learn(&mut self, progress: f64, workspace: &mut Workspace) -> Result<()> {
        match self {
            Self::Conditioned(learner) => learner.learn(progress, workspace)?,
            Self::Recurrent(learner) => learner.learn(progress, workspace)?,
        };
        Ok(())
    }

    pub(crate) fn save_networks(&self, out: &mut Snapshot) {
        match self {
            Self::Conditioned(learner) => learner.save_networks(out),
            Self::Recurrent(learner) => learner.save_networks(out),
        }
    }

    pub(crate) fn load_networks(&mut self, from: &Snapshot) -> Result<()> {
        match self {
            Self::Conditioned(learner) => learner.load_networks(from)?,
            Self::Recurrent(learner) => learner.load_networks(from)?,
        }
        Ok(())
    }
}

impl Persist for BaseLearner {
    fn save(&self, name: &str, out: &mut Snapshot) {
        match self {
            Self::Conditioned(learner) => learner.save(name, out),
            Self::Recurrent(learner) => learner.save(name, out),
        }
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        match self {
            Self::Conditioned(learner) => learner.load(name, from),
            Self::Recurrent(learner) => learner.load(name, from),
        }
    }
}
