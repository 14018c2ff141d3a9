//! Placement of models on accelerators, planned offline: which devices serve which parts of which model
//! (mu-Serve, dissertation 6.3.1 and 6.3.2, on top of the placement of AlpaServe).
//!
//! * [`Cluster`] and [`Workload`]: what there is and what is asked for, from commented files.
//! * [`SensitivityDatabase`]: how sensitive operators are to the clock, computed or measured
//!   ([`Measurement`]).
//! * [`cluster_operators`]: Alg. 6.1. [`StageProblem`]: stages of a pipeline by dynamic programming.
//!   [`shard`]: the division of operators over devices by integer programming.
//! * [`Planner`]: searches with the simulator, and answers with a [`Plan`] that can be deployed and explains
//!   itself. [`Method`] has the power-aware placement and those that it is compared with.
//!
//! Layer 3: no I/O, no clock. Left out: memory of activations, the time to load weights, and devices of
//! different types within one group.
//!
//! ```
//! use homeostat_core::SeedTree;
//! use homeostat_placement::{Cluster, MODELS_EXAMPLE, Method, Planner, PlannerConfig, Workload};
//!
//! # fn main() -> homeostat_placement::Result<()> {
//! let cluster = Cluster::read("[[devices]]\ntype = \"v100\"\ncount = 8")?;
//! let workload = Workload::read(MODELS_EXAMPLE, &cluster, None)?;
//! let config = PlannerConfig { search_iterations: 5000.0, ..PlannerConfig::default() };
//! let planner = Planner::new(cluster, workload, None, config)?;
//! let plan = planner.plan(Method::MuServe, &SeedTree::new(1), &mut |_| {})?;
//! assert!(plan.unplaced.is_empty() && plan.at_planned_clocks.attainment > 0.95);
//! assert!(plan.at_planned_clocks.power_w <= plan.at_highest_clocks.power_w);
//! plan.deployment().validate()?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod catalogue;
mod clocks;
mod cluster;
mod clustering;
mod error;
mod layout;
mod measurement;
mod partition;
mod plan;
mod planner;
mod power_aware;
mod selection;
mod sensitivity;
mod sharding;
mod simulation;
mod stages;
mod workload;

pub use catalogue::Units;
pub use cluster::{CLUSTER_EXAMPLE, Cluster, DevicePool};
pub use clustering::cluster_operators;
pub use error::{Error, Result};
pub use layout::{DeviceSet, Group, Layout, Placed};
pub use measurement::Measurement;
pub use partition::{GroupShape, Partition, PartitionedModel, partition_model};
pub use plan::{Alternative, Expectation, Method, Plan, PlannedCopy, PlannedPartition};
pub use planner::{Planner, PlannerConfig};
pub use power_aware::SimilarityReason;
pub use sensitivity::{SensitivityDatabase, SensitivityEntry};
pub use sharding::{Sharding, Split, shard};
pub use simulation::{ModelOutcome, Outcome, RequestTrace};
pub use stages::StageProblem;
pub use workload::{LoadKind, MAX_LENGTH_RATIO, MODELS_EXAMPLE, ModelDemand, Workload};
