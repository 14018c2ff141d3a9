//! A node whose core frequencies are set: processors with their power, virtual machines on them, and requests that need
//! instructions and memory.
//!
//! * [`Processor`]: frequencies and power of the three processors of the dissertation (section A.4).
//! * [`Workload`]: how much of an application's CPU time a higher frequency shortens.
//! * [`Machine`]: requests that share the cores of one virtual machine.
//! * [`NodePlant`]: one machine whose frequency is decided every second; and the environment `cpufreq/frequency-v1`.
//!
//! Requests are conserved: each was answered or is still inside.
//!
//! Layer 2: no I/O. Left out: turbo limits by temperature and by the number of active cores, idle states, other machines on
//! the same socket, and time to change the frequency.
#![forbid(unsafe_code)]

mod config;
mod error;
mod frequency_env;
mod machine;
mod plant;
mod processor;
mod simulator;
mod workload;

pub use config::{FrequencyReward, NodeConfig, NodeLoad, NodePlan};
pub use error::{Error, Result};
pub use machine::{Machine, Totals};
pub use plant::NodePlant;
pub use processor::{PROCESSORS, Processor};
pub use simulator::{ConfiguredNode, Node, SIMULATOR};
pub use workload::Workload;
