//! The operator on a real API server with a real etcd, started by these tests.
//!
//! `tests/cluster/kubernetes` builds the binaries and prints their folder; without
//! `HOMEOSTAT_TEST_KUBERNETES` every test here says that it was skipped.

mod cluster;
mod definition;
mod learners;
mod operator;
mod past;
mod reconcile;
mod shop;
mod sizes;
