//! A real Kubernetes on this machine, for tests and benchmarks: real servers, started on
//! loopback, that end with the process that started them.
//!
//! `tests/cluster/kubernetes` builds the binaries once and prints their directory. Whatever goes
//! wrong here panics with the log to look at: nothing of this is shipped to users.

mod authority;
mod cluster;
mod control_plane;
mod definitions;
mod hollow_nodes;
mod image;
mod ingress;
mod metrics_api;
mod own_machine;
mod prometheus;
mod real_cluster;
mod real_node;
mod recorded_prometheus;
mod server;
mod workload;

pub use authority::Authority;
pub use cluster::{Cluster, ClusterConfig, client_of};
pub use control_plane::{ControlPlane, ControlPlaneConfig};
pub use definitions::{define, define_by, define_written_use, write_use, written_use};
pub use hollow_nodes::{HollowNodes, PODS_PER_HOLLOW_NODE};
pub use image::{Image, SERVICE_IMAGE, iterations_per_millisecond};
pub use ingress::{Answered, Ingress, IngressConfig, IngressMetrics, Load, PATIENCE};
pub use own_machine::{own_control_group, run_inside};
pub use prometheus::{Exporter, PrometheusServer};
pub use real_cluster::{RealCluster, RealClusterConfig};
pub use real_node::RealNode;
pub use recorded_prometheus::{Recorded, RecordedPrometheus};
pub use server::{Server, free_port};
pub use workload::{Workload, webhook_configuration};
