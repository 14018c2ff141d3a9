//! What senders do on paths whose behaviour is known.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod conservation;
mod controllers;
mod environment;
