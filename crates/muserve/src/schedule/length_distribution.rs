//! How long answers of one predicted class are, learnt from finished requests.

use crate::{Error, Result};

/// Fewer finished requests say nothing about a class.
const MIN_SAMPLES: usize = 20;

/// The lengths of finished answers of one class, and what they imply for an answer in progress.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthDistribution {
    mean: f64,
    /// Gittins rank by tokens so far.
    gittins: Vec<f64>,
    /// Mean of what is left, by tokens so far.
    remaining: Vec<f64>,
}

impl LengthDistribution {
    /// Of these lengths in tokens.
    pub fn of(lengths: &[u32]) -> Result<Self> {
        if lengths.len() < MIN_SAMPLES {
            let what = "finished answers of a class";
            return Err(Error::TooFew { what, found: lengths.len(), least: MIN_SAMPLES });
        }
        let mut sorted = lengths.to_vec();
        sorted.sort_unstable();
        let mean =
            sorted.iter().map(|length| f64::from(*length)).sum::<f64>() / sorted.len() as f64;
        let longest = sorted[sorted.len() - 1];
        let gittins = (0..longest).map(|done| gittins_rank(&sorted, done)).collect();
        let remaining = (0..longest).map(|done| mean_remaining(&sorted, done)).collect();
        Ok(Self { mean, gittins, remaining })
    }

    /// Mean length in tokens.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Mean of what is left of an answer after `done` tokens. Beyond the longest answer seen it stays what
    /// it was last.
    pub fn mean_remaining(&self, done: u32) -> f64 {
        self.at(&self.remaining, done)
    }

    /// The Gittins rank of an answer after `done` tokens: the least ratio, over all further runs, of
    /// expected tokens spent to the probability that the answer ends. Serving the smallest rank
    /// first has the least mean completion time of all orders that do not know the true length, if
    /// preemption is free. Beyond the longest answer seen it stays what it was last.
    pub fn gittins_rank(&self, done: u32) -> f64 {
        self.at(&self.gittins, done)
    }

    fn at(&self, by_done: &[f64], done: u32) -> f64 {
        let place = (done as usize).min(by_done.len().saturating_sub(1));
        by_done.get(place).copied().unwrap_or(self.mean)
    }
}

fn mean_remaining(sorted: &[u32], done: u32) -> f64 {
    let left = &sorted[sorted.partition_point(|length| *length <= done)..];
    left.iter().map(|length| f64::from(length - done)).sum::<f64>() / left.len().max(1) as f64
}

fn gittins_rank(sorted: &[u32], done: u32) -> f64 {
    let left = &sorted[sorted.partition_point(|length| *length <= done)..];
    let (mut best, mut spent) = (f64::INFINITY, 0.0);
    for (ended, length) in left.iter().enumerate() {
        let run = f64::from(length - done);
        spent += run;
        let still_running = (left.len() - ended - 1) as f64;
        best = best.min((spent + still_running * run) / (ended + 1) as f64);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lengths_have_the_remaining_length_as_their_rank() {
        let distribution = LengthDistribution::of(&[50; 30]).unwrap();
        assert_eq!(distribution.mean(), 50.0);
        assert_eq!(distribution.gittins_rank(0), 50.0);
        assert_eq!(distribution.gittins_rank(49), 1.0);
    }

    #[test]
    fn an_answer_that_was_not_short_ranks_behind_a_new_one() {
        // Half of the answers have 10 tokens, half 1000.
        let lengths: Vec<u32> = (0..100).map(|i| if i % 2 == 0 { 10 } else { 1000 }).collect();
        let distribution = LengthDistribution::of(&lengths).unwrap();
        assert_eq!(distribution.gittins_rank(0), 20.0);
        assert_eq!(distribution.gittins_rank(10), 990.0);
        assert_eq!(distribution.mean_remaining(9), 496.0);
        assert_eq!(distribution.mean_remaining(10), 990.0);
        assert_eq!(distribution.mean_remaining(5000), 1.0);
    }

    #[test]
    fn too_few_answers_are_refused() {
        assert!(LengthDistribution::of(&[1; MIN_SAMPLES - 1]).is_err());
    }
}
