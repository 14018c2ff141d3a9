//! What is installed in a cluster: roles from one list of rights, and everything else that
//! `manifests` prints. A test checks that the Helm chart installs the same.

mod definition;
mod manifests;
mod network;
mod rights;
mod workload;

pub use definition::definitions;
pub use manifests::{Installation, manifests};
pub use rights::{Named, Place, RIGHTS, Right, chart_rights};
