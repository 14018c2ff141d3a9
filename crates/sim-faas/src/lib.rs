//! A serverless platform after OpenWhisk: a controller with a queue for each function, nodes
//! whose cores are shared by `cpu.shares`, containers that start cold, page and run out of
//! memory, and allocations that change while requests run.
//!
//! Requests are conserved: every request that arrived was answered, was given up, was lost with a
//! container, or is still inside.
//!
//! Layer 2: no I/O. Left out: the network between client and controller, disks shared by
//! functions, and the data store behind the controller.
//!
//! Twelve functions share three nodes for a minute, under no controller but their first allocation:
//!
//! ```
//! use homeostat_core::SeedTree;
//! use homeostat_sim_faas::{FaasConfig, Tenants};
//!
//! # fn main() -> homeostat_sim_faas::Result<()> {
//! let plan = FaasConfig::default().build()?;
//! let mut tenants = Tenants::new(&plan, 7);
//! for function in 0..plan.functions().count() {
//!     tenants.join(function);
//! }
//! // A window is ten seconds long: six of them are a minute.
//! for _ in 0..6 {
//!     tenants.advance();
//! }
//! let (mut requests, mut violations) = (0, 0);
//! for id in tenants.ids().collect::<Vec<_>>() {
//!     let totals = tenants.platform().totals(id);
//!     requests += totals.judged();
//!     violations += totals.slo_violations;
//! }
//! assert!(violations <= requests && requests > 0);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod catalogue;
mod chain;
mod config;
mod contention;
mod environments;
mod error;
mod objective;
mod platform;
mod profile;
mod simulator;
mod task_type;

pub use catalogue::{by_name, catalogue, names};
pub use chain::ChainGraph;
pub use config::{
    ChainSetup, FunctionSetup, NodeConfig, PlatformConfig, Scaling, Source, Timings, Varying,
};
pub use contention::Contention;
pub use environments::{
    Chains, FaasConfig, FaasPlan, FaasPlant, Fleet, KEEP_ALIVE, LoadKind, PlannedChain,
    RewardPreset, Tenants, heuristic, make, make_multi_agent, specs,
};
pub use error::{Error, Result};
pub use objective::Objective;
pub use platform::{ChainId, ChainTotals, ChainWindow, FunctionId, Platform, Totals, Window};
pub use profile::{Category, FunctionProfile};
pub use simulator::{ConfiguredFaas, Faas, SIMULATOR};
pub use task_type::probe_task_type;
