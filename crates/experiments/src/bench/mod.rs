//! Speed, measured by commands that users can repeat.

mod fleet;
mod idle_env;
mod learn;
mod link;
mod on_demand;
mod recurrent;
mod sim;
mod spans;

pub use fleet::{FleetBench, FleetFigure, FleetReport};
pub use learn::{LearnBench, LearnReport, UpdateTiming};
pub use link::LinkSpeeds;
pub use on_demand::{OnDemandBench, OnDemandReport};
pub use recurrent::RecurrentTiming;
pub use sim::{AgentSpeeds, AzureDay, DeploySpeeds, RequestSpeeds, SimBench, SimReport, SrlSpeed};
pub use spans::{SpanSpeeds, SpansBench, SpansReport};
