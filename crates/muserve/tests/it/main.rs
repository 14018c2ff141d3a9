//! Integration tests of `homeostat-muserve`.

mod queueing_theory;
