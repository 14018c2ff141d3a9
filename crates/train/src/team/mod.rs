//! Agents of a team, each in a process of its own, and the folder of the coordinator between
//! them. How they reach each other is the caller's: anything that is a
//! [`homeostat_simppo::Coordination`].

mod coordinator_folder;
mod link;
mod team_agent;

pub use coordinator_folder::CoordinatorFolder;
pub use link::Link;
pub use team_agent::{AgentEvent, AgentPlan, AgentStatus, AgentWatcher, TeamAgent};
