//! The program as users run it, and the rules that hold over all crates.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod architecture;
mod bad_input;
mod browser;
mod calibrate;
mod command_line;
mod compare;
mod documents;
mod durability;
#[cfg(feature = "network")]
mod environments;
mod gpu;
mod headline;
mod homeostat;
mod joint;
mod peers;
#[cfg(feature = "network")]
mod policy;
mod processes;
mod report;
mod reproduce;
mod reproducible;
mod sim;
mod size;
mod spans;
#[cfg(feature = "network")]
mod team;
mod trace;
