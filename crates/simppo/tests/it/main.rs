//! Integration tests, one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod coordinator;
mod members;
mod participant;
mod stage;
mod team;
mod training;
