//! Microservices: an application's service graph on a cluster of nodes, with replicas, threads, connections,
//! queues and calls, and five resources that replicas share, are limited in and contend for (FIRM,
//! dissertation, chapter 3).
//!
//! [`Topology`] has the graphs of Social Network, Media, Hotel Reservation and Train-Ticket as data.
//! [`Mesh`] plays requests through one, and reports what a real system reports: latencies, use of resources,
//! and spans that [`homeostat_spans`] reads. Anomalies of seven types can be injected, by hand or by a campaign
//! ([`homeostat_anomalies`]). [`MeshPlant`] is the cluster under `decide()`.
//!
//! Every request and every call is conserved: see [`Conservation`].
//!
//! Layer 2: no I/O. Left out: failures of nodes, retries of calls, garbage collection, locks, disks that seek,
//! and packets (a message is a flow that shares a link).
//!
//! ```
//! use homeostat_core::SeedTree;
//! use homeostat_sim_mesh::{Mesh, MeshConfig};
//!
//! # fn main() -> homeostat_sim_mesh::Result<()> {
//! let plan = MeshConfig::default().build()?;
//! let mut mesh = Mesh::new(plan.setup(), &SeedTree::new(7))?;
//! mesh.run_for(2.0);
//! let counts = mesh.conservation();
//! assert!(counts.requests_completed > 0 && counts.holds());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod anomaly;
mod config;
mod container;
mod delays;
mod error;
mod interference;
mod lane;
mod mesh;
mod plant;
mod service_kind;
mod simulator;
mod topology;
mod totals;

pub use anomaly::stressed_resource;
pub use config::{MeshConfig, MeshPlan};
pub use delays::{COLD_START, Delay, WARM_START};
pub use error::{Error, Result};
pub use interference::Interference;
pub use mesh::{
    AnomalyId, Conservation, Mesh, MeshSetup, NodeSize, ReplicaId, RequestTotals, RequestWindow,
    ServiceWindow, SpanRecord,
};
pub use plant::MeshPlant;
pub use service_kind::{Demand, ServiceKind};
pub use simulator::{ConfiguredMesh, MeshSimulator, SIMULATOR};
pub use topology::{Service, Topology};
