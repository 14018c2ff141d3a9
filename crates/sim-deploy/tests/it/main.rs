//! The cluster against what must hold of any cluster: nothing is lost, queues have the means of
//! theory, and pods live as Kubernetes' do.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod conservation;
mod environment;
mod pods;
mod setup;
mod theory;
