//! The mechanics of simulated worlds: an event queue, timers that can be moved, a
//! processor that busy jobs share by weight, and quantiles that need no samples, or few.
//!
//! Layer 1: no I/O. Everything here can be saved and restored, so that a world
//! stops and goes on bit for bit.
#![forbid(unsafe_code)]

mod error;
mod event_queue;
mod histogram;
mod jobs;
mod processor;
mod record;
mod samples;
mod timers;
mod tournament;

pub use error::{Error, Result};
pub use event_queue::EventQueue;
pub use histogram::Histogram;
pub use processor::{ClassId, Finished, KINDS, SharedProcessor, Strain};
pub use record::Record;
pub use samples::Samples;
pub use timers::Timers;
pub use tournament::Tournament;
