//! How many times as large one sum is as another, with an interval.

use homeostat_report::Cell;
use serde::Serialize;

/// A ratio of sums over seeds, with its 95 % interval by the jackknife: each seed is left out once, on the
/// logarithmic scale. A mean of the seeds' ratios would be decided by the seed whose denominator is nearest to zero.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Ratio {
    /// The ratio of the sums.
    pub(super) mean: f64,
    /// Lower end of its interval; none for fewer than three seeds.
    pub(super) low: Option<f64>,
    /// Upper end.
    pub(super) high: Option<f64>,
}

impl Ratio {
    /// Of these pairs of numerator and denominator, one for each seed.
    pub(super) fn of(pairs: &[(f64, f64)]) -> Self {
        let ratio = |without: Option<usize>| {
            let kept = pairs.iter().enumerate().filter(|(index, _)| Some(*index) != without);
            let (over, under) =
                kept.fold((0.0, 0.0), |sum, (_, pair)| (sum.0 + pair.0, sum.1 + pair.1));
            over / under
        };
        let mean = ratio(None);
        let logs: Vec<f64> = (0..pairs.len()).map(|index| ratio(Some(index)).ln()).collect();
        let count = logs.len() as f64;
        let centre = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - centre).powi(2)).sum();
        let error = ((count - 1.0) / count * squares).sqrt();
        let half = homeostat_lab::student_t(logs.len().saturating_sub(1)) * error;
        let is_known = logs.len() > 2 && half.is_finite();
        let end = |half: f64| is_known.then(|| mean * half.exp());
        Self { mean, low: end(-half), high: end(half) }
    }
}

impl From<Ratio> for Cell {
    fn from(ratio: Ratio) -> Self {
        match (ratio.low, ratio.high) {
            _ if !ratio.mean.is_finite() => Self::Nothing,
            (Some(low), Some(high)) => {
                Self::Text(format!("{:.2} ({low:.2} to {high:.2})", ratio.mean))
            }
            _ => Self::Number(ratio.mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ratios_have_no_spread_and_a_zero_denominator_of_one_seed_does_no_harm() {
        let found = Ratio::of(&[(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)]);
        assert_eq!((found.mean, found.low, found.high), (2.0, Some(2.0), Some(2.0)));
        let found = Ratio::of(&[(2.0, 0.0), (4.0, 2.0), (6.0, 3.0)]);
        assert!((found.mean - 2.4).abs() < 1e-12);
        assert!(found.low < Some(2.4) && found.high > Some(2.4), "{found:?}");
    }

    #[test]
    fn two_seeds_have_no_interval() {
        assert_eq!(Ratio::of(&[(2.0, 1.0), (4.0, 1.0)]).low, None);
    }
}
