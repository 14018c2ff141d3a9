//! Rewards of scaling agents.

use serde::{Deserialize, Serialize};

use crate::{AllocationBounds, Features, Observation};

/// Rewards of agents that read [`Features`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RewardPreset {
    /// As printed, alpha 0.3: utilisation has a larger weight than the SLO. It rewards an agent for
    /// lowering a limit that costs nothing; kept for comparison.
    Paper,
    /// The same formula with alpha 0.7: its optimum meets the SLO.
    Slo,
    /// The SLO first, then container- and memory-seconds, which cannot be lowered for free.
    Cost,
}

impl RewardPreset {
    /// The penalty for an illegal action, and for one that reverts the previous action.
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
        // SP, RU_cpu and RU_mem: SLO preservation ratio, CPU and memory utilisation.
        let [preservation, cpu, memory] = [features[0], features[1], features[2]].map(f64::from);
        let weighted = |alpha: f64| alpha * preservation + (1.0 - alpha) / 2.0 * (cpu + memory);
        match self {
            Self::Paper => weighted(0.3),
            Self::Slo => weighted(0.7),
            // Negative while the SLO is violated, positive while it is met: no saving compensates
            // for a violation.
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
