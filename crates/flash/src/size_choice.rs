//! What an execution costs at each memory size, and which size to choose.

use crate::SizePrediction;

/// Prices of a serverless platform.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// For a GB of memory during a second.
    pub per_gb_second: f64,
    /// For a million executions, whatever they take.
    pub per_million: f64,
}

impl Default for Prices {
    /// The list prices of AWS Lambda on x86, in US dollars.
    fn default() -> Self {
        Self { per_gb_second: 0.000_016_666_7, per_million: 0.20 }
    }
}

impl Prices {
    /// What a million executions cost.
    pub fn million(&self, prediction: &SizePrediction) -> f64 {
        let gb_seconds = prediction.memory_mb / 1024.0 * prediction.duration_ms / 1e3;
        1e6 * gb_seconds * self.per_gb_second + self.per_million
    }
}

/// What to choose a size by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SizeGoal {
    /// The least weighted sum of cost and time, each relative to the least of all sizes. The weight
    /// is that of cost, from zero to one; Sizeless uses 0.75.
    Balance(f64),
    /// The cheapest size whose time stays below this many milliseconds, at the upper end of its
    /// interval.
    Within(f64),
}

impl SizeGoal {
    /// The place of the recommended size; nothing if no size reaches the goal.
    pub fn choose(self, prices: &Prices, predictions: &[SizePrediction]) -> Option<usize> {
        let costs: Vec<f64> = predictions.iter().map(|one| prices.million(one)).collect();
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let cheapest = least(&mut costs.iter().copied());
        let fastest = least(&mut predictions.iter().map(|one| one.duration_ms));
        let score = |place: usize| match self {
            Self::Balance(weight) => {
                let time = predictions[place].duration_ms / fastest;
                weight * costs[place] / cheapest + (1.0 - weight) * time
            }
            Self::Within(_) => costs[place],
        };
        let reaches = |place: &usize| match self {
            Self::Balance(_) => true,
            Self::Within(limit_ms) => predictions[*place].interval_ms.1 <= limit_ms,
        };
        let places = (0..predictions.len()).filter(reaches);
        places.min_by(|a, b| score(*a).total_cmp(&score(*b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Vec<SizePrediction> {
        let one = |(memory_mb, duration_ms): (f64, f64)| SizePrediction {
            memory_mb,
            duration_ms,
            interval_ms: (0.9 * duration_ms, 1.1 * duration_ms),
            is_measured: false,
        };
        [(128.0, 1000.0), (256.0, 480.0), (1024.0, 130.0), (2048.0, 125.0)].map(one).to_vec()
    }

    #[test]
    fn a_million_executions_cost_memory_times_time() {
        let prices = Prices { per_gb_second: 2.0, per_million: 0.5 };
        assert!((prices.million(&sizes()[2]) - (2.0 * 0.13 * 1e6 + 0.5)).abs() < 1e-6);
    }

    #[test]
    fn weight_and_limit_choose_the_size() {
        let check = |goal: SizeGoal, expect: Option<usize>| {
            assert_eq!(goal.choose(&Prices::default(), &sizes()), expect, "{goal:?}");
        };
        check(SizeGoal::Balance(1.0), Some(1));
        check(SizeGoal::Balance(0.5), Some(2));
        check(SizeGoal::Balance(0.0), Some(3));
        check(SizeGoal::Within(600.0), Some(1));
        // 130 ms may be 143.
        check(SizeGoal::Within(140.0), Some(3));
        check(SizeGoal::Within(20.0), None);
    }
}
