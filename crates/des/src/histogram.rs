//! Streaming quantiles of durations: a histogram whose bucket widths grow with the value. Every
//! quantile is within one percent, and no sample is kept.

use homeostat_core::{Fraction, Persist, SimDuration, Snapshot};

/// Bits of a value that select a bucket within one power of two: 64 buckets, each at most 1/64
/// wide, so that its middle is within 0.8 % of every value inside.
const SUB_BITS: u32 = 6;
const SUB_BUCKETS: u64 = 1 << SUB_BITS;

/// Counts of durations by size.
///
/// ```
/// use homeostat_core::{Fraction, SimDuration};
/// use homeostat_des::Histogram;
///
/// let mut latency = Histogram::default();
/// (1..=100).for_each(|ms| latency.record(SimDuration::from_millis(ms)));
/// let p99 = latency.quantile(Fraction::from_percent(99)).expect("it has samples").seconds();
/// assert!((p99 - 0.099).abs() < 0.001);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Counts of consecutive buckets. Durations of one source have similar magnitudes, so the
    /// empty buckets below the first one, which are most, are not stored.
    counts: Vec<u64>,
    /// The bucket of the first count; the first one of its power of two.
    first: usize,
    total: u64,
    sum_nanos: u128,
    largest: u64,
}

impl Histogram {
    /// Adds one duration.
    pub fn record(&mut self, duration: SimDuration) {
        let nanos = duration.nanos();
        let bucket = bucket_of(nanos);
        if bucket < self.first || bucket - self.first >= self.counts.len() {
            self.make_room(bucket, bucket + 1);
        }
        self.counts[bucket - self.first] += 1;
        self.total += 1;
        self.sum_nanos += u128::from(nanos);
        self.largest = self.largest.max(nanos);
    }

    /// Number of durations added.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The exact mean.
    pub fn mean(&self) -> Option<SimDuration> {
        let mean = self.sum_nanos.checked_div(u128::from(self.total))?;
        Some(SimDuration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
    }

    /// The exact maximum.
    pub fn largest(&self) -> Option<SimDuration> {
        (self.total > 0).then_some(SimDuration::from_nanos(self.largest))
    }

    /// The quantile, within 0.8 %; the maximum is exact. None without durations.
    pub fn quantile(&self, part: Fraction) -> Option<SimDuration> {
        if self.total == 0 {
            return None;
        }
        let rank = rank_of(part, self.total);
        if rank == self.total {
            return self.largest();
        }
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let bucket = self.first + bucket.expect("the counts add up to the total");
        let middle = middle_of(bucket);
        Some(SimDuration::from_nanos(middle.min(self.largest)))
    }

    /// Durations above this one, whose size is known within 0.8 %.
    pub fn count_above(&self, threshold: SimDuration) -> u64 {
        let is_above = |(bucket, _): &(usize, u64)| middle_of(*bucket) > threshold.nanos();
        self.filled().filter(is_above).map(|(_, count)| count).sum()
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.total == 0 {
            return;
        }
        self.make_room(other.first, other.first + other.counts.len());
        let own = &mut self.counts[other.first - self.first..];
        own.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.total += other.total;
        self.sum_nanos += other.sum_nanos;
        self.largest = self.largest.max(other.largest);
    }

    /// Removes all durations and keeps the allocation.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.total, self.sum_nanos, self.largest) = (0, 0, 0);
    }

    /// Extends the stored range so that it includes the buckets `from..to`.
    #[cold]
    fn make_room(&mut self, from: usize, to: usize) {
        let from = from / SUB_BUCKETS as usize * SUB_BUCKETS as usize;
        if self.counts.is_empty() {
            self.first = from;
        } else if from < self.first {
            let more = self.first - from;
            self.counts.splice(..0, std::iter::repeat_n(0, more));
            self.first = from;
        }
        if self.counts.len() < to - self.first {
            self.counts.resize(to - self.first, 0);
        }
    }

    /// Non-empty buckets with their counts.
    fn filled(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(place, count)| (self.first + place, *count))
    }
}

/// Compares counts, not allocated ranges.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let rest = |of: &Self| (of.total, of.sum_nanos, of.largest);
        rest(self) == rest(other) && self.filled().eq(other.filled())
    }
}

impl Eq for Histogram {}

/// The rank, counted from one, of the quantile among the samples.
pub(crate) fn rank_of(part: Fraction, total: u64) -> u64 {
    ((part.ratio() * total as f64).ceil() as u64).clamp(1, total)
}

/// The middle of the bucket that a duration falls into.
pub(crate) fn bucket_middle(duration: SimDuration) -> SimDuration {
    SimDuration::from_nanos(middle_of(bucket_of(duration.nanos())))
}

/// Small values have a bucket each; for larger ones, the bits after the leading one select it.
fn bucket_of(nanos: u64) -> usize {
    let power = 63 - (nanos | SUB_BUCKETS).leading_zeros();
    let shift = power - SUB_BITS;
    ((u64::from(shift) << SUB_BITS) + (nanos >> shift)) as usize
}

/// The middle of the values that fall into a bucket.
fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SUB_BUCKETS {
        return bucket;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    let low = (bucket - (shift << SUB_BITS)) << shift;
    low + ((1 << shift) >> 1)
}

impl Persist for Histogram {
    fn save(&self, name: &str, out: &mut Snapshot) {
        // All buckets up to the last non-empty one, so that equal histograms are saved equally.
        let mut counts = vec![0; self.filled().last().map_or(0, |(bucket, _)| bucket + 1)];
        self.filled().for_each(|(bucket, count)| counts[bucket] = count);
        out.put_u64(&format!("{name}/counts"), counts);
        let sum = [self.sum_nanos as u64, (self.sum_nanos >> 64) as u64];
        out.put_u64(&format!("{name}/totals"), [self.total, sum[0], sum[1], self.largest]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let counts = from.any_u64s(&format!("{name}/counts"))?;
        (self.counts, self.first) = (Vec::new(), 0);
        if let Some(first) = counts.iter().position(|count| *count > 0) {
            self.make_room(first, counts.len());
            self.counts.copy_from_slice(&counts[self.first..]);
        }
        let totals = from.u64s(&format!("{name}/totals"), 4)?;
        self.total = totals[0];
        self.sum_nanos = u128::from(totals[1]) | u128::from(totals[2]) << 64;
        self.largest = totals[3];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|value| histogram.record(SimDuration::from_nanos(*value)));
        histogram
    }

    #[test]
    fn nothing_has_no_quantile() {
        let empty = Histogram::default();
        assert_eq!((empty.mean(), empty.quantile(Fraction::from_percent(99))), (None, None));
    }

    proptest! {
        #[test]
        fn every_value_lies_within_a_hundredth_of_its_bucket(nanos in any::<u64>()) {
            let middle = middle_of(bucket_of(nanos));
            let error = (middle as f64 - nanos as f64).abs() / (nanos as f64).max(1.0);
            prop_assert!(error <= 1.0 / 128.0, "{} in the bucket of {}", nanos, middle);
        }

        #[test]
        fn quantiles_are_those_of_the_sorted_sample(
            mut values in prop::collection::vec(0u64..10_000_000_000, 1..300), percent in 1u32..=100,
        ) {
            let histogram = of(&values);
            values.sort_unstable();
            let rank = (f64::from(percent) / 100.0 * values.len() as f64).ceil() as usize;
            let exact = values[rank.clamp(1, values.len()) - 1] as f64;
            let got = histogram.quantile(Fraction::from_percent(percent)).unwrap().nanos() as f64;
            prop_assert!((got - exact).abs() <= exact / 128.0 + 1.0, "{got} against {exact}");
        }

        #[test]
        fn merged_histograms_equal_the_histogram_of_all(
            left in prop::collection::vec(any::<u32>(), 0..50), right in prop::collection::vec(any::<u32>(), 0..50),
        ) {
            let widen = |values: &[u32]| values.iter().map(|value| u64::from(*value)).collect::<Vec<_>>();
            let mut merged = of(&widen(&left));
            merged.merge(&of(&widen(&right)));
            prop_assert_eq!(&merged, &of(&widen(&[left, right].concat())));
            let mut snapshot = Snapshot::default();
            merged.save("h", &mut snapshot);
            let mut restored = Histogram::default();
            restored.load("h", &snapshot).unwrap();
            prop_assert_eq!(restored, merged);
        }
    }
}
