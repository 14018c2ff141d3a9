//! One file per verb.

pub(crate) mod bench;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod env;
pub(crate) mod eval;
pub(crate) mod plot;
pub(crate) mod train;
