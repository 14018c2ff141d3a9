//! A cluster that serves the models of Table 6.1: placements, orders and governors compared on the same
//! requests.

mod play;
mod scenario;

pub(super) use play::{Governor, Played, play};
pub(super) use scenario::{Order, Scenario};
