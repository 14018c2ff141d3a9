//! SIMPPO (chapter 4 of the dissertation): many agents on one platform, each coordinated with
//! a single virtual agent that stands for all the others; its rivals; and `simppo+`.
//!
//! Layer 3: no I/O.
#![forbid(unsafe_code)]

mod bases;
mod coordination;
mod coordinator;
mod error;
mod guarded_clock;
mod lane;
mod member;
mod method;
mod net;
mod outlook;
mod participant;
mod refusal;
mod training;
mod turns;
mod virtual_agent;

pub use coordination::{
    AgentName, Coordination, CoordinationError, Guidance, Member, Membership, Session, Transition,
};
pub use coordinator::{AgentStanding, Coordinator, CoordinatorConfig, CoordinatorEvent, Standing};
pub use error::{Error, Result};
pub use homeostat_env::TaskType;
pub use method::{AGENT_ENV, CriticInput, Method, Order, ParameterSharing, Preset, RewardSharing};
pub use participant::{Change, DeliveryCounts, Participant};
pub use refusal::{Refusal, RefusalCounts, RefusalKind};
pub use training::{Departed, Finished, Part, TeamConfig, Training};
pub use turns::TurnQueue;
pub use virtual_agent::{Contribution, GlobalState, VirtualAgent};
