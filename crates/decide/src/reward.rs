//! What an agent is paid for.

use serde::{Deserialize, Serialize};

use crate::{AllocationBounds, Features, Observation};

/// Rewards of agents that read the features of Table 4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewardPreset {
    /// As printed, alpha 0.3: utilisation weighs more than the objective. It pays an agent for
    /// shrinking a limit that costs nothing; kept for comparison.
    Paper,
    /// The same formula with alpha 0.7: its optimum keeps the objective.
    Slo,
    /// The objective first, then container- and memory-seconds: nothing that can be shrunk
    /// for free.
    Cost,
}

impl RewardPreset {
    /// Taken off for an action that is illegal, and for one that undoes the one before.
    pub const PENALTY: f64 = 1.0;

    /// Every preset.
    pub const ALL: [Self; 3] = [Self::Paper, Self::Slo, Self::Cost];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Slo => "slo",
            Self::Cost => "cost",
        }
    }

    /// The reward of a window without penalties, from what the agent was shown.
    pub fn of(
        self,
        features: &[f32; Features::COUNT],
        obs: &Observation,
        bounds: &AllocationBounds,
    ) -> f64 {
        // SP, RU_cpu and RU_mem of Table 4.1.
        let [preservation, cpu, memory] = [features[0], features[1], features[2]].map(f64::from);
        let weighted = |alpha: f64| alpha * preservation + (1.0 - alpha) / 2.0 * (cpu + memory);
        match self {
            Self::Paper => weighted(0.3),
            Self::Slo => weighted(0.7),
            // Below zero while the objective is missed, above zero while it is kept: no saving
            // makes up for a miss.
            Self::Cost if preservation < 1.0 => preservation - 1.0,
            Self::Cost => {
                let most = f64::from(bounds.replicas.high());
                let containers = f64::from(obs.allocation.replicas) / most;
                let bytes = obs.allocation.memory.bytes() as f64;
                let memory = containers * bytes / bounds.memory.high().bytes() as f64;
                1.0 - 0.5 * (containers + memory)
            }
        }
    }
}
