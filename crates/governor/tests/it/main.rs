//! The governor as a process, on a fake NVML and before scripted metrics; and its loop against a queue.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its scene has failed")]

mod closed_loop;
mod device;
mod leases;
mod machine;
mod process;
mod refusals;
mod scripted_gateway;
