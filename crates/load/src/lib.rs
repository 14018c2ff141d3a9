//! Workloads: arrival processes, traces, and models of function populations.
//!
//! * [`Arrivals`]: Poisson, diurnal, autoregressive, bursty (MMPP), spiking or stepped rates,
//!   described by a [`LoadShape`].
//! * [`trace`]: readers of the Azure Functions traces of 2019 and 2021; [`TraceArrivals`] replays a
//!   counted trace exactly.
//! * [`traffic`]: models of the Azure 2019 population, fitted to traces and sampled.
//!
//! Service times and the systems that serve requests belong to the simulators. Layer 1: no I/O;
//! readers take any `Read`. A process can be saved and restored between any two arrivals.
//!
//! ```
//! use homeostat_core::Stream;
//! use homeostat_load::{Arrivals, LoadShape};
//!
//! # fn main() -> homeostat_load::Result<()> {
//! let shape = LoadShape::Poisson { per_second: 100.0 };
//! let mut arrivals = Arrivals::new(&shape, Stream::from_seed(1))?;
//! let mut last = 0.0;
//! for _ in 0..10_000 {
//!     last = arrivals.next_arrival().expect("a Poisson process never ends").seconds();
//! }
//! assert!((95.0..105.0).contains(&last), "10 000 requests took {last} s");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod applications;
mod arrivals;
mod error;
mod replay;
mod shape;
pub mod trace;
pub mod traffic;

pub use arrivals::Arrivals;
pub use error::{Error, Result};
pub use replay::TraceArrivals;
pub use shape::{Level, LoadShape};
