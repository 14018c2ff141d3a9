//! Work that users repeat: the experiments of the papers, and the benchmarks of
//! this program's own speed.
#![forbid(unsafe_code)]

pub mod bench;
pub mod demo;
mod faas_plan;
pub mod reproduce;

pub use faas_plan::faas_plan;
