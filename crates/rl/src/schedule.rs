//! Numbers that change while training goes on.

use serde::{Deserialize, Serialize};

/// How a number such as the learning rate follows the progress of training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// It stays.
    Constant,
    /// It falls in a straight line to zero at the end of the budget.
    Linear,
}

impl Schedule {
    /// The value after `progress` (0 to 1) of the budget.
    pub fn at(self, initial: f32, progress: f64) -> f32 {
        match self {
            Self::Constant => initial,
            Self::Linear => initial * (1.0 - progress.clamp(0.0, 1.0)) as f32,
        }
    }
}
