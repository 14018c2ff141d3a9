//! The store against what must hold of it: nothing that was committed is lost, nothing that is not
//! finite gets in, and files of others are left alone.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bad_files;
mod collect;
mod durability;
mod exchange;
mod parquet;
mod program;
mod queries;
mod servers;
mod setup;
