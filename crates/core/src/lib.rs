//! The types that all crates share.
//!
//! * Units as types: [`Millicores`], [`Bytes`], [`Fraction`], [`RequestRate`]; adding CPU to memory
//!   does not compile.
//! * [`SimTime`] and [`SimDuration`]: simulated time in integer nanoseconds.
//! * [`SeedTree`] and [`Stream`]: named, independent random streams.
//! * [`Slo`], [`Bounds`], [`AgentId`], and the schemas of policy files ([`ControlSchema`]).
//! * [`trajectory`]: recorded decisions.
//! * [`Persist`] and [`Snapshot`]: state as named arrays, restored bit for bit.
//!
//! Layer 0: no I/O, no wall clock, no global randomness.
//!
//! ```
//! use homeostat_core::{Fraction, Millicores, SeedTree, SimDuration, Slo};
//!
//! # fn main() -> homeostat_core::Result<()> {
//! let request = Millicores::from_cores(0.5)?;
//! assert_eq!((request * Fraction::from_percent(80)).to_string(), "400m");
//!
//! let slo = Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(250))?;
//! assert_eq!(slo.to_string(), "p99 <= 250ms");
//! assert_eq!(slo.preservation(SimDuration::from_millis(500)).ratio(), 0.5);
//!
//! // Streams with different names are independent; the same name gives the same numbers.
//! let seeds = SeedTree::new(7);
//! assert_eq!(seeds.stream("arrivals").next_u64(), seeds.stream("arrivals").next_u64());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod bounds;
mod error;
mod ids;
mod schema;
mod seed;
mod slo;
mod snapshot;
mod time;
pub mod trajectory;
mod units;

pub use bounds::Bounds;
pub use error::{Error, Result};
pub use ids::AgentId;
pub use schema::{
    ActionField, ActionSchema, BoundField, ControlSchema, FeatureField, FeatureSchema,
};
pub use seed::{SeedTree, Stream};
pub use slo::Slo;
pub use snapshot::{Array, Persist, Snapshot};
pub use time::{SimDuration, SimTime};
pub use units::{Bytes, Fraction, Millicores, RequestRate};
