//! Experiments in small.

mod reproduction;
