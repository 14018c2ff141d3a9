//! Deployments on a Kubernetes cluster: pods behind a load balancer, with CPU and memory requests
//! and limits, on nodes with a scheduler; start-up, resizing in place or by a rolling update,
//! out-of-memory kills with back-off, and eviction.
//!
//! [`ApplicationPool`] generates a thousand applications from sixteen [`SEGMENTS`]; [`Change`] has
//! the seven scenarios in which a workload changes (AWARE; dissertation, Sections 5.2.3 and 5.5.1).
//! Controllers see what the operator sees of a real cluster: the [`Observation`] is built from the same
//! figures.
//!
//! Requests are conserved: every request that arrived was answered, was given up, was lost with a
//! pod, or is still inside.
//!
//! Layer 2: no I/O. Left out: the network, contention for caches and memory bandwidth, priorities,
//! affinity, and failures of nodes.
//!
//! [`Observation`]: homeostat_decide::Observation
//!
//! Four Deployments share five nodes for a minute, under no controller but their first allocation:
//!
//! ```
//! use homeostat_core::SeedTree;
//! use homeostat_decide::{Plant, SimulatedPlant};
//! use homeostat_sim_deploy::{DeployConfig, DeployPlant};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let plan = DeployConfig::default().build()?;
//! let mut plant = DeployPlant::new(&plan, &[0, 1, 2, 3], &SeedTree::new(7));
//! // A window is fifteen seconds long: four of them are a minute.
//! for _ in 0..4 {
//!     plant.advance()?;
//! }
//! for target in 0..4 {
//!     let totals = plant.totals(target, &[]);
//!     assert!(totals.slo_violations <= totals.requests);
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod cluster;
mod config;
mod error;
mod isolated_latency;
mod plant;
mod service;
mod simulator;

pub use cluster::{Cluster, ClusterConfig, DeploymentSetup, Resize, Totals};
pub use config::{DeployConfig, DeployPlan, LoadKind};
pub use error::{Error, Result};
pub use homeostat_load::applications::{
    Application, ApplicationPool, Change, Cost, Half, Need, Part, Payload, SEGMENTS, Segment,
    Source,
};
pub use plant::DeployPlant;
pub use simulator::{ConfiguredDeploy, Deploy, SIMULATOR};
