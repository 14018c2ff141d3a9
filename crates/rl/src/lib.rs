//! Reinforcement learning for one agent or a thousand: PPO, DQN, DDPG, tabular Q-learning and
//! REINFORCE, and from recorded transitions BCQ, IQL and TD3+BC; one readable file each.
//!
//! A [`Learner`] is one agent: it acts, records transitions, and updates when it has enough of
//! them. It owns its weights, moments, buffers and random stream, so agents are independent and
//! [`for_each_agent`] runs each agent's whole update as one task. A [`Policy`] is what remains
//! after training: one file with weights, schemas and provenance. [`LearnedPolicy`] serves it
//! through `decide`, [`LearnedLimits`] to containers with five resources. An [`OfflineLearner`] learns from an [`OfflineDataset`] and never acts; [`evaluate`] estimates from
//! recorded decisions what a policy is worth.
//!
//! A learner never steps an environment: the training loop passes observations and rewards. Runs
//! on disk, metrics and checkpoint files belong to other crates. Layer 2: no I/O.
//!
//! A training loop on a vectorised environment:
//!
//! ```
//! use homeostat_core::{AgentId, SeedTree};
//! use homeostat_env::{Action, AutoresetMode, VecEnv, make};
//! use homeostat_nn::Kernel;
//! use homeostat_rl::{AgentContext, AlgorithmConfig, Outcome, Workspace, presets};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cartpole = || make("classic/cartpole-v1");
//! let seeds = SeedTree::new(1);
//! let context = AgentContext {
//!     agent: AgentId::new(0),
//!     spec: cartpole()?.spec().clone(),
//!     seeds: seeds.child("agent"),
//! };
//! let mut learner = AlgorithmConfig::Ppo(presets::cartpole_ppo()).build(&context)?;
//! let num_envs = learner.num_envs();
//! let mut envs = VecEnv::new(cartpole, num_envs, AutoresetMode::SameStep, &seeds)?;
//! let mut actions = vec![Action::Discrete(0); num_envs];
//! let mut workspace = Workspace::new(Kernel::best());
//! let mut updates = 0;
//! for step in 0..128 {
//!     learner.act(envs.obs(), &mut actions, &mut workspace)?;
//!     let mut recorded = Ok(());
//!     envs.step(&actions, |index, step| {
//!         let outcome = Outcome {
//!             reward: step.reward,
//!             terminated: step.terminated,
//!             truncated: step.truncated,
//!             next_obs: step.final_obs,
//!         };
//!         if recorded.is_ok() {
//!             recorded = learner.record(index, outcome, &mut workspace);
//!         }
//!     })?;
//!     recorded?;
//!     updates += usize::from(learner.learn(step as f64 / 128.0, &mut workspace)?.is_some());
//! }
//! assert_eq!(updates, 4, "one update after 32 steps in each environment");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod action_codec;
mod algorithm;
mod conditioning;
mod constrained_model;
mod ddpg;
mod dqn;
mod encoder;
mod error;
mod evaluation;
mod fleet;
mod learned_limits;
mod learned_policy;
mod learner;
mod noise;
mod offline;
mod optimized_network;
mod policy;
mod ppo;
pub mod presets;
mod q_learning;
mod recurrent_ppo;
mod reinforce;
mod replay;
mod rollout;
mod schedule;
mod workspace;

pub use action_codec::ActionCodec;
pub use algorithm::{Algorithm, AlgorithmConfig};
pub use conditioning::{ConditionedLearner, EmbeddingTable};
pub use ddpg::{Ddpg, DdpgConfig};
pub use dqn::{Dqn, DqnConfig};
pub use encoder::Encoder;
pub use error::{Error, Result};
pub use evaluation::{
    Estimate, EvaluationConfig, MIN_TRAJECTORIES, OfflineEvaluation, Recording, evaluate,
};
pub use fleet::{for_each_agent, for_each_agent_of};
pub use learned_limits::LearnedLimits;
pub use learned_policy::LearnedPolicy;
pub use learner::{AgentContext, Learned, Learner, Outcome};
pub use noise::NoiseConfig;
pub use offline::{
    Bcq, BcqConfig, Iql, IqlConfig, OfflineAlgorithm, OfflineConfig, OfflineDataset,
    OfflineLearner, Recorded, Td3Bc, Td3BcConfig, recorded_env,
};
pub use policy::{Policy, Provenance, RecordedEvaluation, RunProvenance, Sampling};
pub use ppo::{AdvantageNormalisation, Losses, Ppo, PpoConfig};
pub use q_learning::{QLearning, QLearningConfig};
pub use recurrent_ppo::{RecurrentPpo, Remembered};
pub use reinforce::{Reinforce, ReinforceConfig};
pub use rollout::Batch;
pub use schedule::Schedule;
pub use workspace::Workspace;
