//! Building blocks of discrete-event simulators.
//!
//! * [`EventQueue`]: events by time, simultaneous ones in the order of scheduling.
//! * [`SharedProcessor`]: weighted processor sharing with a cap per job and contention costs, in
//!   virtual time: O(log n) per event.
//! * [`Timers`]: one movable timer per owner. [`Tournament`]: the least of many keys that change.
//! * [`Histogram`] and [`Samples`]: streaming quantiles.
//!
//! Arrival processes are in `homeostat-load`; simulated systems are crates of their own. Layer 1:
//! no I/O. All state can be saved, and a restored simulation continues bit for bit.
//!
//! Two jobs share one core and finish together:
//!
//! ```
//! use homeostat_core::{SimDuration, SimTime};
//! use homeostat_des::SharedProcessor;
//!
//! # fn main() -> homeostat_des::Result<()> {
//! let mut processor = SharedProcessor::new(1.0)?;
//! let class = processor.add_class(1.0, 1.0)?;
//! for job in ["first", "second"] {
//!     processor.start(SimTime::ZERO, class, SimDuration::from_secs(1), job);
//! }
//! let next = processor.next_finish().expect("two jobs are running");
//! assert_eq!(next, SimTime::ZERO + SimDuration::from_secs(2));
//! # Ok(())
//! # }
//! ```
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
pub use processor::{ClassId, ContentionCost, Finished, KINDS, SharedProcessor};
pub use record::Record;
pub use samples::Samples;
pub use timers::Timers;
pub use tournament::Tournament;
