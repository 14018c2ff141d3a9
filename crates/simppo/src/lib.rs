//! SIMPPO (chapter 4 of the dissertation): many agents on one platform, each coordinated with
//! a single virtual agent that stands for all the others; its rivals; and `simppo+`.
//!
//! Layer 3: no I/O.
#![forbid(unsafe_code)]

mod bases;
mod error;
mod kind;
mod lane;
mod member;
mod method;
mod net;
mod outlook;
mod training;
mod virtual_agent;

pub use error::{Error, Result};
pub use kind::Kind;
pub use method::{Method, Order, Pay, Preset, Sharing, View};
pub use training::{Departed, Finished, Part, TeamConfig, Training};
pub use virtual_agent::{Contribution, GlobalState, VirtualAgent};
