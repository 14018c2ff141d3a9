//! Weights by bucket, their percentiles, and the lossy checkpoints that Kubernetes stores.

use std::collections::BTreeMap;

use homeostat_core::{Persist, Result as CoreResult, Snapshot};

use super::buckets::HistogramBuckets;
use crate::{Error, Result};

/// A weighted histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageHistogram {
    buckets: HistogramBuckets,
    weights: Vec<f64>,
    total: f64,
    /// Less weight than this is as good as none.
    epsilon: f64,
}

/// Bucket weights as small integers, in the shape of Kubernetes' checkpoint objects. Exact
/// state goes through [`Persist`] instead.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistogramCheckpoint {
    /// Weight by bucket, the largest being [`HistogramCheckpoint::LARGEST_WEIGHT`].
    pub weights: BTreeMap<i64, u32>,
    /// Sum of the weights before they were made small.
    pub total: f64,
}

impl HistogramCheckpoint {
    /// What the largest weight is scaled to.
    pub const LARGEST_WEIGHT: u32 = 10_000;
}

impl UsageHistogram {
    /// An empty histogram. Buckets below `epsilon` count as empty.
    pub fn new(buckets: HistogramBuckets, epsilon: f64) -> Self {
        Self { buckets, weights: vec![0.0; buckets.count()], total: 0.0, epsilon }
    }

    /// Adds a value. A weight that is not a number above zero adds nothing.
    pub fn add(&mut self, value: f64, weight: f64) {
        if weight.is_finite() && weight > 0.0 && !value.is_nan() {
            self.weights[self.buckets.find(value)] += weight;
            self.total += weight;
        }
    }

    /// Takes a value back that was added with this weight.
    pub fn subtract(&mut self, value: f64, weight: f64) {
        if weight.is_finite() && weight > 0.0 && !value.is_nan() {
            let epsilon = self.epsilon;
            // Rounding must not leave a sliver of a bucket behind.
            let rest = |from: f64| if from - weight < epsilon { 0.0 } else { from - weight };
            let bucket = &mut self.weights[self.buckets.find(value)];
            *bucket = rest(*bucket);
            self.total = rest(self.total);
        }
    }

    /// Multiplies every weight.
    pub fn scale(&mut self, factor: f64) {
        self.weights.iter_mut().for_each(|weight| *weight *= factor);
        self.total *= factor;
    }

    /// Whether no bucket has any weight to speak of.
    pub fn is_empty(&self) -> bool {
        self.occupied().is_none()
    }

    /// The value that this part of the weight does not exceed, rounded up to the end of its
    /// bucket; 0 if empty. Parts below 0 and above 1 mean the least and the greatest.
    pub fn percentile(&self, part: f64) -> f64 {
        let Some((least, greatest)) = self.occupied() else { return 0.0 };
        let threshold = part * self.total;
        let mut sum = 0.0;
        let reaches = |bucket: &usize| {
            sum += self.weights[*bucket];
            sum >= threshold
        };
        let bucket = (least..greatest).find(reaches).unwrap_or(greatest);
        self.buckets.representative(bucket)
    }

    /// Sum of the weights.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Weight of one bucket.
    pub fn weight(&self, bucket: usize) -> f64 {
        self.weights[bucket]
    }

    /// The weights as small integers: one in ten thousand of the largest is the finest
    /// difference, and what rounds to nothing is dropped.
    pub fn checkpoint(&self) -> HistogramCheckpoint {
        let largest = self.weights.iter().copied().fold(0.0, f64::max);
        if self.is_empty() {
            return HistogramCheckpoint { weights: BTreeMap::new(), total: 0.0 };
        }
        let ratio = f64::from(HistogramCheckpoint::LARGEST_WEIGHT) / largest;
        let weights = self.weights.iter().enumerate();
        let weights = weights
            .map(|(bucket, weight)| (bucket as i64, (weight * ratio).round() as u32))
            .filter(|(_, weight)| *weight > 0)
            .collect();
        HistogramCheckpoint { weights, total: self.total }
    }

    /// Adds what a checkpoint holds, scaled so that it sums to the checkpoint's total.
    pub fn add_checkpoint(&mut self, checkpoint: &HistogramCheckpoint) -> Result<()> {
        let refuse = |what, value: String| Err(Error::Checkpoint { what, value });
        let total = checkpoint.total;
        if !total.is_finite() || total < 0.0 {
            return refuse("needs a total weight of 0 or more", total.to_string());
        }
        let mut weights = Vec::with_capacity(checkpoint.weights.len());
        for (bucket, weight) in &checkpoint.weights {
            match usize::try_from(*bucket) {
                Ok(bucket) if bucket < self.weights.len() => weights.push((bucket, *weight)),
                _ => return refuse("needs buckets that exist", bucket.to_string()),
            }
        }
        let sum: f64 = weights.iter().map(|(_, weight)| f64::from(*weight)).sum();
        if sum == 0.0 {
            if total > 0.0 {
                return refuse("needs buckets for its total weight", total.to_string());
            }
            return Ok(());
        }
        for (bucket, weight) in weights {
            self.weights[bucket] += f64::from(weight) * total / sum;
        }
        self.total += total;
        Ok(())
    }

    /// First and last bucket with weight.
    fn occupied(&self) -> Option<(usize, usize)> {
        let has_weight = |weight: &f64| *weight >= self.epsilon;
        let least = self.weights.iter().position(has_weight)?;
        let greatest = self.weights.iter().rposition(has_weight)?;
        Some((least, greatest))
    }
}

impl Persist for UsageHistogram {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_f64(&format!("{name}/weights"), self.weights.clone());
        out.put_f64(&format!("{name}/total"), [self.total]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        let weights = from.f64s(&format!("{name}/weights"), self.weights.len())?;
        self.weights.copy_from_slice(weights);
        self.total = from.f64s(&format!("{name}/total"), 1)?[0];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(most: f64, size: f64) -> UsageHistogram {
        UsageHistogram::new(HistogramBuckets::linear(most, size).unwrap(), 1e-3)
    }

    fn assert_percentiles(histogram: &UsageHistogram, expect: &[(f64, f64)]) {
        for (part, value) in expect {
            let got = histogram.percentile(*part);
            assert!((got - value).abs() < 1e-9, "p{part}: {got} is not {value}");
        }
    }

    #[test]
    fn percentiles_are_the_upper_ends_of_buckets() {
        let mut histogram = linear(10.0, 1.0);
        for value in 1..=4 {
            histogram.add(f64::from(value), f64::from(value));
        }
        assert_percentiles(
            &histogram,
            &[(0.0, 2.0), (0.1, 2.0), (0.2, 3.0), (0.3, 3.0), (0.4, 4.0), (0.5, 4.0)],
        );
        assert_percentiles(
            &histogram,
            &[(0.6, 4.0), (0.7, 5.0), (0.8, 5.0), (0.9, 5.0), (1.0, 5.0)],
        );
    }

    #[test]
    fn an_empty_histogram_answers_zero_and_impossible_parts_the_ends() {
        let mut histogram = linear(1.0, 0.1);
        assert!(histogram.is_empty());
        assert_percentiles(&histogram, &[(-0.1, 0.0), (0.0, 0.0), (0.5, 0.0), (1.1, 0.0)]);
        histogram.add(0.1, 0.1);
        histogram.add(0.2, 0.2);
        assert_percentiles(&histogram, &[(-0.1, 0.2), (1.1, 0.3)]);
    }

    #[test]
    fn values_above_the_last_bucket_answer_its_start() {
        let mut histogram = linear(1.0, 0.1);
        histogram.add(50.0, 1.0);
        assert_percentiles(&histogram, &[(0.5, 1.0)]);
    }

    #[test]
    fn what_is_taken_back_leaves_no_trace() {
        let mut histogram = linear(1.0, 0.1);
        histogram.add(0.5, 0.3);
        histogram.subtract(0.5, 0.3);
        assert_eq!(histogram, linear(1.0, 0.1));
    }

    #[test]
    fn a_checkpoint_scales_the_largest_weight_to_ten_thousand() {
        let mut histogram = linear(10.0, 1.0);
        for (value, weight) in [(1.0, 1.0), (2.0, 10_000.0), (3.0, 50.0)] {
            histogram.add(value, weight);
        }
        let checkpoint = histogram.checkpoint();
        assert_eq!(checkpoint.weights, BTreeMap::from([(1, 1), (2, 10_000), (3, 50)]));
        assert_eq!(checkpoint.total, 10_051.0);
        let mut restored = linear(10.0, 1.0);
        restored.add_checkpoint(&checkpoint).unwrap();
        assert_eq!(restored, histogram);
    }

    #[test]
    fn a_checkpoint_drops_what_is_too_small_to_tell() {
        let mut histogram = linear(10.0, 1.0);
        histogram.add(1.0, 1.0);
        histogram.add(2.0, 100_000.0);
        assert_eq!(histogram.checkpoint().weights, BTreeMap::from([(2, 10_000)]));
    }

    #[test]
    fn a_loaded_checkpoint_sums_to_its_total() {
        let mut histogram = linear(10.0, 1.0);
        let weights = BTreeMap::from([(0, 1), (1, 2)]);
        histogram.add_checkpoint(&HistogramCheckpoint { weights, total: 6.0 }).unwrap();
        assert_eq!((histogram.weight(0), histogram.weight(1), histogram.total()), (2.0, 4.0, 6.0));
    }

    #[test]
    fn impossible_checkpoints_are_refused_and_change_nothing() {
        let check = |weights: &[(i64, u32)], total, expect: &str| {
            let mut histogram = linear(10.0, 1.0);
            let weights = weights.iter().copied().collect();
            let error = histogram.add_checkpoint(&HistogramCheckpoint { weights, total });
            assert_eq!(error.unwrap_err().to_string(), expect);
            assert_eq!(histogram, linear(10.0, 1.0));
        };
        let buckets = "histogram checkpoint needs buckets that exist: got";
        check(&[(-1, 1)], 1.0, &format!("{buckets} -1"));
        check(&[(0, 1), (11, 1)], 2.0, &format!("{buckets} 11"));
        let total = "histogram checkpoint needs a total weight of 0 or more: got";
        check(&[(0, 1)], -1.0, &format!("{total} -1"));
        check(&[(0, 1)], f64::NAN, &format!("{total} NaN"));
        check(&[], 1.0, "histogram checkpoint needs buckets for its total weight: got 1");
        let error = linear(10.0, 1.0).load("histogram", &Snapshot::default());
        assert!(error.unwrap_err().to_string().contains("no array `histogram/weights`"));
    }
}
