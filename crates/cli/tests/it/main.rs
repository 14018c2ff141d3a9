//! The program as people use it, and the house rules that hold over all crates.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod architecture;
mod bad_input;
mod command_line;
mod documents;
mod durability;
mod homeostat;
mod peers;
mod reproducible;
