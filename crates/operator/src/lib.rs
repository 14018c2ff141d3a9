//! The multidimensional pod autoscaler: a Kubernetes operator that scales the number and the size of
//! a workload's pods in one decision.
#![forbid(unsafe_code)]

pub mod api;
pub mod cli_output;
pub mod cluster;
pub mod controllers;
pub mod guard;
pub mod history;
pub mod install;
pub mod learn;
pub mod lease;
pub mod measure;
pub mod recommend;
pub mod run;
pub mod serve;
pub mod supervisor;
pub mod telemetry;
pub mod update;
pub mod webhook;
