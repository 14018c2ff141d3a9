//! A real Kubernetes on this machine, for tests and benchmarks: real servers, started on
//! loopback, that die with whoever started them.
//!
//! `tests/cluster/kubernetes` builds the binaries once and prints their folder. Whatever goes
//! wrong here panics with the log to look at: nothing of this is shipped to users.

mod authority;
mod cluster;
mod control_plane;
mod hollow_nodes;
mod prometheus;
mod server;

pub use authority::Authority;
pub use cluster::{Cluster, ClusterConfig};
pub use control_plane::{ControlPlane, ControlPlaneConfig};
pub use hollow_nodes::{HollowNodes, PODS_PER_HOLLOW_NODE};
pub use prometheus::{Exporter, PrometheusServer};
pub use server::{Server, free_port};
