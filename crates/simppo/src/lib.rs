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
mod member;
mod method;
mod net;
mod outlook;
mod participant;
mod refusal;
mod seat_table;
mod training;
mod turns;

pub use coordination::{
    AgentName, Coordination, CoordinationError, Member, Membership, Registration, Seat,
    SeatObservation, Session, StepOutcome,
};
pub use coordinator::{
    AgentStatus, Coordinator, CoordinatorConfig, CoordinatorEvent, CoordinatorStatus,
};
pub use error::{Error, Result};
pub use homeostat_decide::{Contribution, GlobalState, VirtualAgent};
pub use homeostat_env::TaskType;
pub use method::{CriticInput, HOSTED_ENV, Method, Order, ParameterSharing, Preset, RewardSharing};
pub use participant::{ActionCounts, Change, Participant, ParticipantConfig};
pub use refusal::{Refusal, RefusalCounts, RefusalKind};
pub use training::{Departed, Finished, Learners, Part, TeamConfig, Training};
pub use turns::TurnQueue;
