//! Speed, measured by commands that users can repeat.

mod learn;
mod on_demand;
mod sim;

pub use learn::{LearnBench, LearnReport, UpdateTiming};
pub use on_demand::{OnDemandBench, OnDemandReport};
pub use sim::{AgentSpeeds, AzureDay, RequestSpeeds, SimBench, SimReport, SrlSpeed};
