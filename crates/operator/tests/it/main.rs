//! The operator on a real API server with a real etcd, started by these tests.
//!
//! `tests/cluster/kubernetes` builds the binaries and prints their folder; without
//! `HOMEOSTAT_TEST_KUBERNETES` every test here says that it was skipped.

mod aware;
mod chart;
mod clocks;
mod cluster;
mod collector;
mod conflicts;
mod dashboard;
mod definition;
mod first_object;
mod hollow;
mod image;
mod installed;
mod leaders;
mod learners;
mod newer_server;
mod operator;
mod outages;
mod past;
mod policies;
mod prometheus;
mod real_node;
mod real_shop;
mod reconcile;
mod resize;
mod rights;
mod shop;
mod sizes;
mod supervision;
mod team;
