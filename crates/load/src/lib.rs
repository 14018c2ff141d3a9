//! Where requests come from: arrival processes with a rate that is constant, swings with
//! the day, wanders, bursts, spikes or steps; published traces, read and played; and
//! populations of functions that resemble them.
//!
//! Layer 1: no I/O. A process is fully described by its [`LoadShape`] and a random
//! stream, and can be saved and restored between any two arrivals.
#![forbid(unsafe_code)]

mod arrivals;
mod error;
mod replay;
mod shape;
pub mod trace;
pub mod traffic;

pub use arrivals::Arrivals;
pub use error::{Error, Result};
pub use replay::TraceArrivals;
pub use shape::{Level, LoadShape};
