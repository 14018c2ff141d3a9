//! Learners and environments together.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod control_tasks;
mod envs_on_threads;
mod joint_training;
mod team;
