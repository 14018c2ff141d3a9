//! Model serving that answers short requests first (mu-Serve, chapter 6 of the dissertation).
//!
//! * [`schedule`]: queues per model in order of arrival, of length or of length with ageing, and a
//!   server that runs recorded requests in such an order, with and without preemption.
//! * [`predict`]: how long an answer will be, from the prompt and the model, corrected by what
//!   finished requests showed.
//! * [`cache`]: lengths of answers to similar prompts.
//! * [`encode`]: texts as vectors, by an encoder that users bring.
//! * [`govern`]: governors of GPU clocks.
//!
//! Layer 3: no I/O, no clock. Left out: the proxy that sends requests to a server (crate `gateway`),
//! clocks of real GPUs (crate `governor`), and placement of models on devices (crate `placement`).
#![forbid(unsafe_code)]

pub mod cache;
pub mod encode;
mod error;
pub mod govern;
pub mod predict;
pub mod schedule;

pub use error::{Error, Result};
