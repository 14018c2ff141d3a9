//! Work that users repeat: the experiments of the papers, and the benchmarks of
//! this program's own speed. [`sizing`] has what `homeostat size` reads and trains on.
#![forbid(unsafe_code)]

pub mod bench;
pub mod demo;
mod faas_plan;
pub mod reproduce;
pub mod sizing;

pub use faas_plan::faas_plan;
