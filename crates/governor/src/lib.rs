//! A governor of GPU clocks (mu-Serve, section 6.3.2 of the dissertation): lowers the clocks of GPUs
//! that serve models as far as the SLOs allow.
//!
//! Every period [`source`] reads latencies from the gateway or from Prometheus, [`signal`] keeps them
//! with their age, and [`governor`] asks the one `decide()` of the project for the clock of each
//! device and carries the decision out through [`gpu`], which is NVIDIA's [`nvml`] outside of tests.
//! [`lease`] remembers on disk what has to be restored; [`run`] is the loop around all of it.
#![forbid(unsafe_code)]

pub mod check;
pub mod clock_grid;
pub mod exposition;
pub mod governor;
pub mod gpu;
pub mod histogram;
pub mod http;
pub mod lease;
pub mod metrics;
pub mod nvml;
pub mod process_identity;
pub mod restore;
pub mod run;
pub mod server;
pub mod settings;
pub mod signal;
pub mod source;
pub mod status;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where leases are without settings.
pub const DEFAULT_LEASE_DIRECTORY: &str = "/run/homeostat-governor";

/// Where metrics and status are without settings.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9092);
