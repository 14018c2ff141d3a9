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

/// A probability that moves in a straight line from `start` to `end` over `steps`.
pub(crate) fn decayed(start: f32, end: f32, steps: u64, step: u64) -> f64 {
    let progress = (step as f64 / steps.max(1) as f64).min(1.0);
    f64::from(start) + (f64::from(end) - f64::from(start)) * progress
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_end_where_they_say() {
        assert_eq!(Schedule::Constant.at(0.2, 0.7), 0.2);
        assert_eq!(
            [0.0, 0.5, 1.0, 2.0].map(|progress| Schedule::Linear.at(2.0, progress)),
            [2.0, 1.0, 0.0, 0.0]
        );
        assert_eq!([0, 5, 10, 99].map(|step| decayed(1.0, 0.5, 10, step)), [1.0, 0.75, 0.5, 0.5]);
    }
}
