//! The operator on a real API server with a real etcd, started by these tests.
//!
//! `tests/cluster/kubernetes` builds the binaries and prints their folder; without
//! `HOMEOSTAT_TEST_KUBERNETES` every test here says that it was skipped.

mod chart;
mod cluster;
mod dashboard;
mod definition;
mod first_object;
mod image;
mod learners;
mod operator;
mod past;
mod real_node;
mod reconcile;
mod rights;
mod shop;
mod sizes;
