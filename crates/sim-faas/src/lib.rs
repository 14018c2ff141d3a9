//! A serverless platform after OpenWhisk: a controller with a queue for each function, nodes
//! whose cores are shared by `cpu.shares`, containers that start cold, page and run out of
//! memory, and run-time knobs that act while requests run.
//!
//! Requests are conserved: whatever arrived has been answered, given up, lost with a
//! container, or is still inside.
//!
//! Layer 2: no I/O. Left out: the network between client and controller, disks shared by
//! functions, and the data store behind the controller.
#![forbid(unsafe_code)]

mod catalogue;
mod chain;
mod config;
mod contention;
mod error;
mod objective;
mod platform;
mod profile;
mod simulator;
mod task_type;
mod world;

pub use catalogue::{by_name, catalogue, names};
pub use chain::ChainGraph;
pub use config::{
    ChainSetup, FunctionSetup, NodeConfig, PlatformConfig, Scaling, Source, Timings, Varying,
};
pub use contention::Contention;
pub use error::{Error, Result};
pub use objective::Objective;
pub use platform::{ChainId, ChainTotals, ChainWindow, FunctionId, Platform, Totals, Window};
pub use profile::{Category, FunctionProfile};
pub use simulator::{ConfiguredFaas, Faas, SIMULATOR};
pub use task_type::probe_task_type;
pub use world::{
    Chains, FaasConfig, FaasPlan, FaasPlant, Fleet, KEEP_ALIVE, LoadKind, PlannedChain,
    RewardPreset, Tenants, heuristic, make, make_multi_agent, specs,
};
