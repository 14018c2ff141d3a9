//! Performance anomalies as FIRM injects them (dissertation, 3.2.6 and Table 3.4): their types, and campaigns that
//! say which are injected when, where and how strongly.
//!
//! A [`Campaign`] is a file and also the ground truth: what was injected is known. It names services and
//! times and nothing of the system, so that the same file drives a simulator and a real node.
//!
//! Layer 1: no I/O.
//!
//! ```
//! use homeostat_anomalies::{Campaign, Injection};
//! use homeostat_core::SeedTree;
//!
//! # fn main() -> homeostat_anomalies::Result<()> {
//! let campaign = Campaign::parse(
//!     r#"
//!     [[anomaly]]
//!     at_s = 10.0
//!     kind = "cpu"
//!     service = "search"
//!     intensity = 0.8
//!     duration_s = 5.0
//!
//!     [random]
//!     per_s = 0.33
//!     "#,
//! )?;
//! let mut injections = campaign.injections(&["search", "rate"], &SeedTree::new(1))?;
//! let first_ten: Vec<Injection> = injections.by_ref().take(10).collect();
//! assert!(first_ten.is_sorted_by_key(|injection| injection.at));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod campaign;
mod error;
mod injections;
mod kind;

pub use campaign::{Campaign, PlannedAnomaly, RandomAnomalies};
pub use error::{Error, Result};
pub use injections::{Injection, Injections};
pub use kind::AnomalyKind;
