//! Integration tests of `homeostat-muserve`.

mod minilm;
mod queueing_theory;
