//! Arrival processes against the theory of point processes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arrivals;
