//! Integration tests, one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod end_to_end;
mod environments;
mod generated_code;
mod hostile;
mod security;
mod setup;
