//! The multidimensional pod autoscaler: a Kubernetes operator that scales a workload in both
//! directions at once.
#![forbid(unsafe_code)]

pub mod api;
pub mod cluster;
pub mod controllers;
pub mod guard;
pub mod history;
pub mod install;
pub mod learn;
pub mod lease;
pub mod measure;
pub mod people;
pub mod recommend;
pub mod run;
pub mod serve;
pub mod telemetry;
pub mod update;
pub mod webhook;
