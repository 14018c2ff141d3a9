//! Agents of a team, each in a process of its own, and the directory of the coordinator that hosts
//! their platform. How they reach it is the caller's: anything that is a
//! [`homeostat_simppo::Coordination`].

mod coordinator_directory;
mod team_agent;

pub use coordinator_directory::CoordinatorDirectory;
pub use team_agent::{AgentEvent, AgentPlan, AgentStatus, AgentWatcher, TeamAgent};
