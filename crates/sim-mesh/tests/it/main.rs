//! The simulator of microservices, seen from outside.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod anomalies;
mod conservation;
mod environment;
mod plant;
mod scaling;
mod setup;
mod spans;
mod theory;
