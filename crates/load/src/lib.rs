//! Where requests come from: arrival processes with a rate that is constant, swings with
//! the day, wanders, bursts, spikes or steps; and readers of published traces.
//!
//! Layer 1: no I/O. A process is fully described by its [`LoadShape`] and a random
//! stream, and can be saved and restored between any two arrivals.
#![forbid(unsafe_code)]

mod arrivals;
mod error;
mod shape;
pub mod trace;

pub use arrivals::Arrivals;
pub use error::{Error, Result};
pub use shape::{Level, LoadShape};
