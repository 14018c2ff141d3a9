//! The simulator of microservices, seen from outside.

mod anomalies;
mod conservation;
mod environment;
mod scaling;
mod setup;
mod spans;
mod theory;
