//! The mechanics of simulated worlds: an event queue, timers that can be moved, a
//! processor that busy jobs share by weight, and quantiles that need no samples.
//!
//! Layer 1: no I/O. Everything here can be saved and restored, so that a world
//! stops and goes on bit for bit.
#![forbid(unsafe_code)]

mod error;
mod event_queue;
mod histogram;
mod processor;
mod record;
mod timers;

pub use error::{Error, Result};
pub use event_queue::EventQueue;
pub use histogram::Histogram;
pub use processor::{ClassId, Finished, KINDS, SharedProcessor, Strain};
pub use record::Record;
pub use timers::Timers;
