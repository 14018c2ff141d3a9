//! What contention costs on a real node: busy processes in real control groups, and the
//! coefficients that simulated nodes use, fitted to them.
//!
//! Workers are processes of this program, each in a group of its own as containers are. They
//! count units of work and the CPU time these took: what counts is work per CPU time, so that
//! time which foreign processes take is not mistaken for a cost of contention. A busy machine
//! still spoils the comparison, since a worker alone then has its caches emptied by others and
//! the cost of contention comes out too small: [`ContentionReport::received`] tells.
//!
//! Left out: network and disk contention, sibling hyper-threads as such (they show up in `y`)
//! and frequency scaling apart from what it does to `y`.
#![forbid(unsafe_code)]

mod cgroup;
mod contention;
mod crew;
mod fit;
mod node;
mod paging;
mod shares;
mod starts;
mod system;
mod worker;

pub use cgroup::{Group, Version, weight_of_shares};
pub use contention::{CategoryReport, ContentionReport, CurvePoint, MixReport};
pub use crew::Workplace;
pub use fit::{Estimate, Form, StrainFit};
pub use node::{Machine, NodeCalibration, NodeReport, Part};
pub use paging::{PagingPoint, PagingReport};
pub use shares::{GroupSplit, ShareCase, ShareReport, compare_shares, share_cases};
pub use starts::{StartReport, StartTimes};
pub use worker::{Count, Kind, Window, serve_worker};
