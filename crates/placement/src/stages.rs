//! Inter-operator parallelism: a dynamic programme divides a chain of units into the stages of a
//! pipeline, as AlpaServe does for inference.

use std::ops::Range;

/// Units of a chain, in order: operator clusters, or operators.
#[derive(Debug, Clone, PartialEq)]
pub struct StageProblem {
    /// Seconds of each unit for a mean request.
    pub seconds: Vec<f64>,
    /// Bytes of each unit on a device: weights, and the cache of the longest request.
    pub bytes: Vec<f64>,
    /// Seconds of the transfer into a stage that does not begin the chain.
    pub transfer_s: f64,
    /// Bytes of a device.
    pub capacity: f64,
}

impl StageProblem {
    /// Exactly `stages` stages, none of them empty and each within the memory of a device, whose slowest
    /// is as fast as possible: it bounds the throughput of the pipeline. The time of a request in all
    /// stages does not depend on the division. None if there is no such division.
    pub fn solve(&self, stages: usize) -> Option<Vec<Range<usize>>> {
        let units = self.seconds.len();
        if stages == 0 || stages > units {
            return None;
        }
        let (seconds, bytes) = (prefix_sums(&self.seconds), prefix_sums(&self.bytes));
        let cost = |start: usize, end: usize| {
            if bytes[end] - bytes[start] > self.capacity {
                return f64::INFINITY;
            }
            let transfer = if start == 0 { 0.0 } else { self.transfer_s };
            seconds[end] - seconds[start] + transfer
        };
        // best[end]: the slowest of the stages so far that cover the units before `end`.
        let mut best: Vec<f64> = (0..=units).map(|end| cost(0, end)).collect();
        best[0] = f64::INFINITY;
        let mut starts = vec![vec![0; units + 1]];
        for _ in 1..stages {
            let mut next = vec![f64::INFINITY; units + 1];
            let mut from = vec![0; units + 1];
            for end in 1..=units {
                // From the right: a stage only grows, so that once it is slower than the best, or too
                // large, the search is over.
                for start in (1..end).rev() {
                    let last = cost(start, end);
                    if last >= next[end] {
                        break;
                    }
                    let slowest = last.max(best[start]);
                    if slowest < next[end] {
                        (next[end], from[end]) = (slowest, start);
                    }
                }
            }
            best = next;
            starts.push(from);
        }
        if best[units].is_infinite() {
            return None;
        }
        let mut end = units;
        let mut ranges = Vec::new();
        for from in starts.iter().rev() {
            ranges.push(from[end]..end);
            end = from[end];
        }
        ranges.reverse();
        Some(ranges)
    }

    /// Seconds of the slowest of these stages.
    pub fn bottleneck(&self, stages: &[Range<usize>]) -> f64 {
        let seconds = |stage: &Range<usize>| {
            let transfer = if stage.start == 0 { 0.0 } else { self.transfer_s };
            self.seconds[stage.clone()].iter().sum::<f64>() + transfer
        };
        stages.iter().map(seconds).fold(0.0, f64::max)
    }
}

fn prefix_sums(values: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for value in values {
        sums.push(sums.last().copied().unwrap_or(0.0) + value);
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every division of `units` units into `stages` ranges.
    fn divisions(units: usize, stages: usize) -> Vec<Vec<Range<usize>>> {
        fn go(start: usize, units: usize, stages: usize) -> Vec<Vec<Range<usize>>> {
            if stages == 1 {
                return if start < units {
                    vec![std::iter::once(start..units).collect()]
                } else {
                    vec![]
                };
            }
            let mut all = Vec::new();
            for end in start + 1..units {
                for rest in go(end, units, stages - 1) {
                    all.push(std::iter::once(start..end).chain(rest).collect());
                }
            }
            all
        }
        go(0, units, stages)
    }

    proptest! {
        #[test]
        fn it_equals_trying_all_divisions(
            units in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 1..9),
            stages in 1_usize..5,
            capacity in 0.3..4.0_f64,
            transfer_s in 0.0..0.3_f64,
        ) {
            let problem = StageProblem {
                seconds: units.iter().map(|unit| unit.0).collect(),
                bytes: units.iter().map(|unit| unit.1).collect(),
                transfer_s,
                capacity,
            };
            let fits = |division: &Vec<Range<usize>>| {
                let bytes = |stage: &Range<usize>| problem.bytes[stage.clone()].iter().sum::<f64>();
                // Sums in another order differ in the last bit.
                division.iter().all(|stage| bytes(stage) <= capacity + 1e-12)
            };
            let least = divisions(units.len(), stages)
                .into_iter()
                .filter(fits)
                .map(|division| problem.bottleneck(&division))
                .fold(f64::INFINITY, f64::min);
            match problem.solve(stages) {
                None => prop_assert!(least.is_infinite()),
                Some(division) => {
                    prop_assert!(fits(&division));
                    prop_assert_eq!(division.len(), stages);
                    let flat: Vec<usize> = division.iter().cloned().flatten().collect();
                    prop_assert_eq!(flat, (0..units.len()).collect::<Vec<_>>());
                    let slowest = problem.bottleneck(&division);
                    prop_assert!((slowest - least).abs() < 1e-9, "{} {}", slowest, least);
                }
            }
        }
    }

    #[test]
    fn a_stage_that_fits_nowhere_has_no_division() {
        let problem = StageProblem {
            seconds: vec![1.0, 1.0],
            bytes: vec![1.0, 9.0],
            transfer_s: 0.0,
            capacity: 4.0,
        };
        assert_eq!(problem.solve(2), None);
        assert_eq!(problem.solve(3), None);
        assert_eq!(problem.solve(0), None);
    }
}
