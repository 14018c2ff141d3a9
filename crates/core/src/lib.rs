//! The words every other crate speaks: units that cannot be mixed up, simulated
//! time, named random streams, objectives, bounds, and snapshots of state.
//!
//! Layer 0: no I/O, no clock, no global randomness.
#![forbid(unsafe_code)]

mod bounds;
mod error;
mod ids;
mod schema;
mod seed;
mod slo;
mod snapshot;
mod time;
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
