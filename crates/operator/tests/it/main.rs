//! The operator on a real API server with a real etcd, started by these tests.
//!
//! `tests/cluster/kubernetes` builds the binaries and prints their folder; without
//! `HOMEOSTAT_TEST_KUBERNETES` every test here says that it was skipped.

mod clocks;
mod cluster;
mod conflicts;
mod definition;
mod hollow;
mod leaders;
mod newer_server;
mod operator;
mod outages;
mod prometheus;
mod reconcile;
mod resize;
mod shop;
mod sizes;
