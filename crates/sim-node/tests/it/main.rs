//! What a node promises: requests are conserved, waits are those of theory, and decisions alone change a frequency.

mod environment;
mod queue;
