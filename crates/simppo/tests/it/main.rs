//! Integration tests, one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod kind;
mod members;
mod stage;
mod training;
mod virtual_agent;
