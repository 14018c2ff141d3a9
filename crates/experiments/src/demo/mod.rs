//! What `homeostat demo` shows: the platform, a team that is watched while it learns, and a platform
//! that grows.

mod growth;
mod watched_team;

use homeostat_lab::{Assignment, Environments, Result, RunConfig, Settings, UserLayers};

pub use growth::{Growth, GrowthWindow};
pub use watched_team::{TeamSummary, WatchedTeam};

/// What the demonstration trains and plays.
#[derive(Debug, Clone, Copy)]
pub struct DemoSize {
    /// Seed of the training.
    pub seed: u64,
    /// Steps of each agent.
    pub steps: u64,
    /// Steps between two rounds of the live view.
    pub log_every: u64,
    /// Functions on the platform.
    pub functions: usize,
    /// Nodes, each with five cores.
    pub nodes: usize,
}

impl DemoSize {
    /// A run of twelve agents that each learn alone on this platform.
    pub fn config(&self) -> Result<RunConfig> {
        let flag =
            |key: &str, value: String| Assignment::new(key, value, format!("of the demo, {key}"));
        let flags = [
            flag("run.preset", "s-rl".to_owned()),
            flag("run.env", "faas/function-v2".to_owned()),
            flag("run.seed", self.seed.to_string()),
            flag("run.agents", "12".to_owned()),
            flag("run.steps", self.steps.to_string()),
            flag("run.log_every", self.log_every.to_string()),
            flag("faas.reward", "cost".to_owned()),
            flag("faas.functions", self.functions.to_string()),
            flag("faas.functions_per_node", self.functions.div_ceil(self.nodes).to_string()),
            flag("faas.cores_per_node", "5.0".to_owned()),
        ];
        Settings::resolve(&Environments::builtin(), &UserLayers::of_flags(flags))?.validate()
    }
}
