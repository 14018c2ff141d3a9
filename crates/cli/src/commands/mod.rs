//! One file per verb.

pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod env;
pub(crate) mod eval;
pub(crate) mod gpu;
#[cfg(feature = "network")]
pub(crate) mod network;
pub(crate) mod operator;
pub(crate) mod plot;
pub(crate) mod policy;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod runs;
pub(crate) mod sim;
mod sim_measured;
pub(crate) mod size;
pub(crate) mod spans;
pub(crate) mod trace;
pub(crate) mod train;
