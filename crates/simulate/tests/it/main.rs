//! Simulations, and the traces and published tables that they are compared with.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod managed;
mod measured_table;
mod sample;
mod simulation;
mod team;
mod trace_files;
mod traffic;
