//! The gateway between real sockets: a scripted upstream for what no server does on purpose, and a
//! real server with the official client for everything else.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its scene has failed")]

mod deploy;
mod faults;
mod hostile;
mod limits;
mod memory;
mod process;
mod program;
mod queue;
mod real_server;
mod setup;
mod spans;
mod upstreams;
