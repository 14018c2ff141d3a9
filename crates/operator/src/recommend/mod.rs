//! From what is known of a workload to what it should have: no clock, no network, no cluster.
//! A controller gathers [`Inputs`], the [`Engine`] of the object answers with an [`Outcome`].

mod checkpoint_text;
mod engine;
mod format;
mod inputs;
mod split;

pub use checkpoint_text::{from_text, to_text};
pub use engine::{Absence, Engine, Outcome};
pub use inputs::{ContainerInputs, Inputs, PodInputs};
