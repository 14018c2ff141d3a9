//! The decision core of the multidimensional pod autoscaler: from an object of the Kubernetes API
//! and what is measured of its workload to the number and the size of its pods.
//!
//! It depends on the types of Kubernetes, not on a client: `homeostat-operator` reads the cluster,
//! hands in values and the time, and carries the decisions out. Tests and the replay of a recorded
//! history run the same code without a cluster.
//!
//! Layer 3: no I/O, no clock.
#![forbid(unsafe_code)]

pub mod api;
pub mod guard;
pub mod history;
pub mod learn;
pub mod measure;
pub mod recommend;
pub mod update;
pub mod workload;
