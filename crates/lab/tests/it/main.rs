//! Learners and worlds together.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod control_tasks;
mod joint_training;
mod lanes_on_threads;
mod measured_table;
mod reproduction;
mod sample;
mod simulation;
mod team;
mod trace_files;
mod traffic;
