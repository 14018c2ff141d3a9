//! Arrival processes against the theory of point processes, readers against good and bad
//! traces, and made traffic against what it was asked to be.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arrivals;
mod replay;
mod traces;
mod traffic;
