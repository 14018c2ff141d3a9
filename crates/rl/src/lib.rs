//! Reinforcement learning for one agent or a thousand: PPO, DQN, DDPG, tabular
//! Q-learning and REINFORCE, one readable file each.
//!
//! A [`Learner`] is one agent: it acts, records what came of it, and learns when
//! it has seen enough. It owns its weights, moments, buffers and random stream, so
//! agents are independent of each other and [`for_each_agent`] runs each one's
//! whole update as a single task. Worlds are never seen here: whoever drives the
//! learner hands over observations and rewards.
//!
//! Layer 2: no I/O.
#![forbid(unsafe_code)]

mod action_codec;
mod algorithm;
mod ddpg;
mod dqn;
mod encoder;
mod error;
mod fleet;
mod learned_policy;
mod learner;
mod noise;
mod optimized_network;
mod policy;
mod ppo;
pub mod presets;
mod q_learning;
mod reinforce;
mod replay;
mod rollout;
mod schedule;
mod workspace;

pub use action_codec::ActionCodec;
pub use algorithm::{Algorithm, AlgorithmConfig};
pub use ddpg::{Ddpg, DdpgConfig};
pub use dqn::{Dqn, DqnConfig};
pub use encoder::Encoder;
pub use error::{Error, Result};
pub use fleet::{for_each_agent, for_each_agent_of};
pub use learned_policy::LearnedPolicy;
pub use learner::{AgentContext, Learned, Learner, Outcome};
pub use noise::NoiseConfig;
pub use policy::{Policy, Provenance, RunProvenance, Sampling};
pub use ppo::{AdvantageNormalisation, Losses, Ppo, PpoConfig};
pub use q_learning::{QLearning, QLearningConfig};
pub use reinforce::{Reinforce, ReinforceConfig};
pub use rollout::Batch;
pub use schedule::Schedule;
pub use workspace::Workspace;
