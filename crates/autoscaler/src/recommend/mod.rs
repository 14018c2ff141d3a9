//! Recommends the number and the size of a workload's pods. A controller gathers [`Inputs`], the
//! [`Engine`] of the object returns an [`Outcome`], and a [`StatusBuilder`] writes it as a status.

mod checkpoint_text;
mod engine;
mod format;
mod inputs;
mod oom_kills;
mod split;
mod status;

pub use checkpoint_text::{from_text, to_text};
pub use engine::{Absence, Engine, Outcome};
pub use inputs::{ContainerInputs, Inputs, LoadInputs, PodInputs};
pub use oom_kills::OomKills;
pub use status::{Outage, Refused, StatusBuilder, sim_time, time};
