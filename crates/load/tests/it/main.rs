//! Arrival processes against the theory of point processes, and readers against good and
//! bad traces.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arrivals;
mod traces;
