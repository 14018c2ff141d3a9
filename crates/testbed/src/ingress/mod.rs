//! Requests from outside: a load generator that stands where an ingress would.
//!
//! It is open: requests come at times that were drawn before the run, whether or not earlier ones
//! were answered, and their latency counts from the time at which they should have been sent. So
//! a slow service cannot hide by slowing its clients down. It follows the service's endpoints,
//! sends each request to the pod with the fewest outstanding ones (in turn where several have as
//! few), never retries, and gives up after five seconds.

mod balance;
mod generator;
mod load;
mod metrics;

pub use generator::{Answered, Ingress, IngressConfig, PATIENCE};
pub use load::Load;
pub use metrics::IngressMetrics;
