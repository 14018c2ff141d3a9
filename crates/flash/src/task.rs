//! The programming interface of Listing 5.1, one meta learner for each task.

use std::collections::BTreeMap;
use std::fmt;

use homeostat_core::{Persist, SeedTree, Snapshot};
use homeostat_nn::Kernel;
use serde::{Deserialize, Serialize};

use crate::{
    Bundle, DataBuffer, Error, MetaLearner, MetaLearnerConfig, MetaTape, Result, SampleBuffer,
    TrajectoryBuffer,
};

/// An application and the environment it runs in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pair {
    /// The application, for example a function or a Deployment.
    pub application: String,
    /// The environment, for example a processor or a cloud provider.
    pub environment: String,
}

impl Pair {
    /// This application in this environment.
    pub fn new(application: impl Into<String>, environment: impl Into<String>) -> Self {
        Self { application: application.into(), environment: environment.into() }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` on `{}`", self.application, self.environment)
    }
}

/// The fingerprint of a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding(pub Vec<f32>);

/// One task of system management with its meta learner, and a data buffer for each pair.
#[derive(Debug)]
pub struct MetaTask<B> {
    name: String,
    meta: MetaLearner,
    buffers: BTreeMap<Pair, B>,
    tape: MetaTape,
    kernel: Kernel,
}

/// The task of a supervised base learner (`SLModel`). A sample is its features, then its label.
pub type SupervisedTask = MetaTask<SampleBuffer>;

/// The task of a reinforcement-learning base learner (`RLModel`). A step of a trajectory is state,
/// action and reward.
pub type ReinforcementTask = MetaTask<TrajectoryBuffer>;

/// How many numbers a labelled sample has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleWidths {
    /// Inputs of the base learner.
    pub features: usize,
    /// Its outputs.
    pub labels: usize,
}

/// How many numbers a step of a trajectory has, besides its reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepWidths {
    /// Of the observation.
    pub state: usize,
    /// Of the action; one for a discrete action.
    pub action: usize,
}

impl SupervisedTask {
    /// Registers a base learner whose samples are this wide (`RegisterBaseLearner`).
    pub fn register_base_learner(
        name: &str,
        widths: SampleWidths,
        config: MetaLearnerConfig,
        seeds: &SeedTree,
    ) -> Result<Self> {
        Self::with_width(name, widths.features + widths.labels, config, seeds)
    }
}

impl ReinforcementTask {
    /// Registers a base learner whose trajectories have steps of this width (`RegisterBaseLearner`).
    pub fn register_base_learner(
        name: &str,
        widths: StepWidths,
        config: MetaLearnerConfig,
        seeds: &SeedTree,
    ) -> Result<Self> {
        Self::with_width(name, widths.state + widths.action + 1, config, seeds)
    }
}

impl<B: DataBuffer> MetaTask<B> {
    fn with_width(
        name: &str,
        width: usize,
        config: MetaLearnerConfig,
        seeds: &SeedTree,
    ) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            meta: MetaLearner::new(config, width, &seeds.child(name))?,
            buffers: BTreeMap::new(),
            tape: MetaTape::default(),
            kernel: Kernel::best(),
        })
    }

    /// The name of the task.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Registers a pair, with an empty buffer if it had one before.
    pub fn register_pair(&mut self, pair: Pair) {
        let buffer = B::new(self.meta.config().buffer, self.meta.width());
        self.buffers.insert(pair, buffer);
    }

    /// Inserts a sample or a trajectory of a pair (`InsertDataSamples`, `InsertTrajSamples`).
    pub fn insert(&mut self, pair: &Pair, item: B::Item) -> Result<()> {
        self.buffers.get_mut(pair).ok_or_else(|| unregistered(pair))?.insert(item)
    }

    /// What the meta learner reads of a pair.
    pub fn bundle(&self, pair: &Pair) -> Result<Bundle> {
        let bundle = self.buffers.get(pair).ok_or_else(|| unregistered(pair))?.bundle();
        if bundle.sequences().is_empty() {
            return Err(Error::NoSamples { pair: pair.to_string() });
        }
        Ok(bundle)
    }

    /// The present embedding of a pair (`GetEmbedding`).
    pub fn embedding(&mut self, pair: &Pair) -> Result<Embedding> {
        let bundle = self.bundle(pair)?;
        let numbers = self.meta.embed(self.kernel, &[&bundle], &mut self.tape)?;
        Ok(Embedding(numbers.to_vec()))
    }

    /// Switches updates of the meta learner on for pretraining, off for adaptation
    /// (`ToggleMetaModelUpdate`).
    pub fn set_meta_updates(&mut self, is_updating: bool) {
        self.meta.set_updates(is_updating);
    }

    /// The meta learner.
    pub fn meta(&self) -> &MetaLearner {
        &self.meta
    }

    pub(crate) fn meta_mut(&mut self) -> &mut MetaLearner {
        &mut self.meta
    }

    /// Replaces the meta learner by one that was trained.
    pub(crate) fn take_meta_learner(&mut self, meta: MetaLearner) {
        self.meta = meta;
    }
}

impl ReinforcementTask {
    pub(crate) fn save_buffers(&self, name: &str, out: &mut Snapshot) {
        for (place, buffer) in self.buffers.values().enumerate() {
            buffer.save(&format!("{name}/{place}"), out);
        }
    }

    /// Reads the buffers of the same pairs.
    pub(crate) fn load_buffers(
        &mut self,
        name: &str,
        from: &Snapshot,
    ) -> homeostat_core::Result<()> {
        let mut buffers = self.buffers.values_mut().enumerate();
        buffers.try_for_each(|(place, buffer)| buffer.load(&format!("{name}/{place}"), from))
    }
}

fn unregistered(pair: &Pair) -> Error {
    Error::Unregistered { pair: pair.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trajectory;

    fn config() -> MetaLearnerConfig {
        MetaLearnerConfig { input: 8, hidden: 6, embedding: 4, ..MetaLearnerConfig::flash() }
    }

    #[test]
    fn a_supervised_task_embeds_what_was_inserted() {
        let seeds = SeedTree::new(1);
        let widths = SampleWidths { features: 2, labels: 1 };
        let mut task =
            SupervisedTask::register_base_learner("sizing", widths, config(), &seeds).unwrap();
        let pair = Pair::new("checkout", "lambda");
        let refused = task.insert(&pair, vec![0.0; 3]).unwrap_err().to_string();
        assert!(refused.starts_with("`checkout` on `lambda` is not registered"), "{refused}");
        task.register_pair(pair.clone());
        assert!(matches!(task.embedding(&pair), Err(Error::NoSamples { .. })));
        task.insert(&pair, vec![0.1, 0.2, 0.3]).unwrap();
        let one = task.embedding(&pair).unwrap();
        assert_eq!(one.0.len(), 4);
        assert_eq!(task.embedding(&pair).unwrap(), one);
        task.insert(&pair, vec![0.9, -0.2, 0.5]).unwrap();
        assert_ne!(task.embedding(&pair).unwrap(), one);
        // Registered again, the pair starts afresh.
        task.register_pair(pair.clone());
        task.insert(&pair, vec![0.1, 0.2, 0.3]).unwrap();
        assert_eq!(task.embedding(&pair).unwrap(), one);
    }

    #[test]
    fn a_reinforcement_task_embeds_trajectories_of_any_length() {
        let seeds = SeedTree::new(1);
        let widths = StepWidths { state: 3, action: 1 };
        let mut task =
            ReinforcementTask::register_base_learner("autoscaling", widths, config(), &seeds)
                .unwrap();
        let pair = Pair::new("checkout", "cluster");
        task.register_pair(pair.clone());
        for steps in [4, 1, 7] {
            let rows = (0..steps * 5).map(|place| place as f32 / 40.0).collect();
            task.insert(&pair, Trajectory { rows, total_reward: f64::from(steps) }).unwrap();
        }
        assert!(task.embedding(&pair).unwrap().0.iter().all(|number| number.is_finite()));
    }
}
