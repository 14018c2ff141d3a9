//! The multidimensional pod autoscaler: a Kubernetes operator that scales the number and the size of
//! a workload's pods in one decision. `homeostat_autoscaler` decides; this crate watches the cluster
//! and carries the decisions out.
#![forbid(unsafe_code)]

pub mod cli_output;
pub mod cluster;
pub mod controllers;
pub mod history;
pub mod install;
pub mod learn;
pub mod lease;
pub mod measure;
pub mod run;
pub mod serve;
pub mod supervisor;
pub mod telemetry;
pub mod update;
pub mod webhook;
