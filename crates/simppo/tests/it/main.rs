//! Integration tests, one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod coordinator;
mod kind;
mod participant;
mod team;
mod virtual_agent;
