//! A gateway in front of OpenAI-compatible servers that answers short requests first (mu-Serve,
//! section 6.3.3 of the dissertation).
//!
//! A request passes [`proxy`]: its key and limits ([`admission`]), what matters of its body
//! ([`request`]), the predicted length of its answer ([`prediction`]), the queue of its model
//! ([`scheduler`]), an upstream ([`upstream`], checked by [`health`]) and the way back ([`answer`],
//! with events in [`sse`]); `spans` sends a record of it to a collector. [`server`] accepts
//! connections; [`settings`] can change while it runs.
#![forbid(unsafe_code)]

pub mod admission;
pub mod answer;
pub mod api_error;
pub mod budgets;
pub mod gateway;
pub mod health;
pub mod metrics;
pub mod prediction;
pub mod proxy;
pub mod request;
pub mod scheduler;
pub mod server;
pub mod settings;
mod spans;
pub mod sse;
mod stalled;
pub mod upstream;
