//! FLASH (dissertation, 5.6 to 5.8 and appendix A): adapt to applications and environments that
//! were never seen, without learning from nothing.
//!
//! A *base learner* does a task for one pair of application and environment. A *meta learner*
//! reads what the base learner observed of a pair and answers with an embedding, which the base
//! learner reads beside its features. Both are pretrained on a pool of pairs; then the meta
//! learner is frozen, and a new pair needs a few samples instead of a training run.
//!
//! * [`MetaLearner`]: the recurrent network of Figure A.1 with the settings of Table A.1. AWARE's
//!   variant is [`MetaLearnerConfig::aware`].
//! * [`MetaTask`]: the interface of Listing 5.1, for samples ([`SupervisedTask`]) and trajectories
//!   ([`ReinforcementTask`]).
//! * [`SupervisedLearner`]: a conditioned base learner for regression; [`Adaptation`] switches to
//!   the baselines.
//! * [`ReinforcementLearner`]: PPO, DQN or DDPG, conditioned, or recurrent PPO (RL²); pretrained on a pool of
//!   [`PairEnvironment`]s, adapted to a new pair or served in it.
//! * [`Profile`]: applications measured in several configurations, as episodes for that learner;
//!   [`SizeEstimator`] predicts execution times at other memory sizes, with intervals.
//! * [`similarity()`] and [`EmbeddingPool`]: how alike pairs are, and which lie outside the pool.
//!
//! Layer 3: no I/O.
#![forbid(unsafe_code)]

mod base_learner;
mod bundle;
mod config;
mod error;
mod meta_learner;
mod pair_environment;
mod profile;
mod reinforcement;
mod similarity;
mod size_choice;
mod sizing;
mod standardizer;
mod supervised;
mod task;

pub use bundle::{Bundle, DataBuffer, SampleBuffer, Trajectory, TrajectoryBuffer};
pub use config::{Adaptation, BufferConfig, MetaLearnerConfig, Selection};
pub use error::{Error, Result};
pub use meta_learner::{MetaLearner, MetaTape};
pub use pair_environment::PairEnvironment;
pub use profile::{Measurement, Profile, Protocol};
pub use reinforcement::{Memory, ReinforcementConfig, ReinforcementLearner, Visit};
pub use similarity::{EmbeddingPool, Proximity, similarity};
pub use size_choice::{Prices, SizeGoal};
pub use sizing::{
    COVERAGE, FunctionSizes, SizeEstimator, SizeMeasurement, SizePrediction, SizedFunction,
};
pub use supervised::{Episode, PoolPair, Query, SampleShape, SupervisedConfig, SupervisedLearner};
pub use task::{
    Embedding, MetaTask, Pair, ReinforcementTask, SampleWidths, StepWidths, SupervisedTask,
};
