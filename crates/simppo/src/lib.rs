//! SIMPPO (chapter 4 of the dissertation): many agents on one platform, each coordinated with
//! a single virtual agent that stands for all the others.
//!
//! Layer 3: no I/O.
#![forbid(unsafe_code)]

mod virtual_agent;

pub use virtual_agent::{Contribution, GlobalState, VirtualAgent};
