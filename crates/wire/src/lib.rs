//! What speaks over a network: gRPC over plain TCP or TLS.
//!
//! [`CoordinatorServer`] serves a coordinator; [`CoordinationClient`] is the same coordinator
//! as an agent sees it, through the same [`homeostat_simppo::Coordination`]. [`Environments`]
//! are what learners act in, served by [`EnvironmentServer`] and seen through an
//! [`EnvironmentClient`]. The messages are in `proto/`.
//!
//! Layer 4: network and clock. It reads no files and prints nothing.
#![forbid(unsafe_code)]

mod channel;
mod client;
mod environment;
mod error;
mod gate;
mod incoming;
mod listening;
mod messages;
mod protocol;
mod security;
mod server;
mod service;

pub use channel::ClientConfig;
pub use client::CoordinationClient;
pub use environment::{
    EnvironmentClient, EnvironmentError, EnvironmentServer, Environments, MakeEnvironment, Opening,
    ServeConfig, SimulatedEnvironments, Stepped, serve_environments,
};
pub use error::{Error, Result};
pub use gate::TransportCounts;
pub use listening::ServerConfig;
pub use security::{ServerIdentity, Token};
pub use server::CoordinatorServer;
pub use tonic::async_trait;
