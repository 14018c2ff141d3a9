//! A coordinator and its agents at the two ends of a network: gRPC over plain TCP or TLS.
//!
//! [`CoordinatorServer`] serves a coordinator; [`CoordinationClient`] is the same coordinator
//! as an agent sees it, through the same [`homeostat_simppo::Coordination`]. The messages are
//! in `proto/coordination.proto`.
//!
//! Layer 4: network and clock. It reads no files and prints nothing.
#![forbid(unsafe_code)]

mod client;
mod error;
mod incoming;
mod messages;
mod protocol;
mod security;
mod server;
mod service;

pub use client::{ClientConfig, CoordinationClient};
pub use error::{Error, Result};
pub use security::{ServerIdentity, Token};
pub use server::{CoordinatorServer, ServerConfig, TransportCounts};
