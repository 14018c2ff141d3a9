//! What is installed in a cluster: roles, from one list of rights, and everything else that
//! `manifests` prints. The Helm chart says the same; a test compares the two.

mod manifests;
mod network;
mod rights;
mod workload;

pub use manifests::{Installation, manifests};
pub use rights::{Named, Place, RIGHTS, Right, chart_rights};
