//! The mechanisms against theory: closed forms, hand-made schedules, and a plain
//! simulation that moves every job by itself.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod queueing_theory;
mod sharing;
