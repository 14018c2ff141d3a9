//! Learners and worlds together.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod control_tasks;
