//! The durations of a window, with the quantiles of a [`Histogram`].
//!
//! A window has a few dozen durations; a histogram of them has hundreds of buckets. So a window
//! stores durations one by one while they are few: recording appends to a short list, and closing
//! the window costs O(durations).

use homeostat_core::{Fraction, Persist, SimDuration, Snapshot};

use crate::Histogram;
use crate::histogram::{bucket_middle, rank_of};

/// Durations stored one by one; with more of them, a histogram stores all.
const MAX_EXACT: usize = 256;

/// Durations of a window. All figures are those of a [`Histogram`] of the same durations.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    exact: Vec<SimDuration>,
    /// Boxed, because most windows never need it.
    older: Option<Box<Histogram>>,
}

impl Samples {
    /// Adds one duration.
    #[inline]
    pub fn record(&mut self, duration: SimDuration) {
        if self.exact.len() == MAX_EXACT {
            self.make_room();
        }
        self.exact.push(duration);
    }

    /// Number of durations added.
    pub fn count(&self) -> u64 {
        self.exact.len() as u64 + self.older.as_ref().map_or(0, |older| older.count())
    }

    /// The quantile, within 0.8 %; the maximum is exact. None without durations.
    pub fn quantile(&mut self, part: Fraction) -> Option<SimDuration> {
        if self.older.as_ref().is_some_and(|older| older.count() > 0) {
            self.make_room();
            return self.older.as_ref().and_then(|older| older.quantile(part));
        }
        let largest = *self.exact.iter().max()?;
        let rank = rank_of(part, self.exact.len() as u64) as usize;
        if rank == self.exact.len() {
            return Some(largest);
        }
        let (_, ranked, _) = self.exact.select_nth_unstable(rank - 1);
        Some(bucket_middle(*ranked).min(largest))
    }

    /// Durations above this one: exact while they are few, of more the size is known within 0.8 %.
    pub fn count_above(&self, threshold: SimDuration) -> u64 {
        let exact = self.exact.iter().filter(|duration| **duration > threshold).count() as u64;
        exact + self.older.as_ref().map_or(0, |older| older.count_above(threshold))
    }

    /// Adds all of them to a histogram.
    pub fn add_to(&self, histogram: &mut Histogram) {
        if let Some(older) = &self.older {
            histogram.merge(older);
        }
        self.exact.iter().for_each(|duration| histogram.record(*duration));
    }

    /// Removes all durations and keeps the allocation.
    pub fn clear(&mut self) {
        self.exact.clear();
        if let Some(older) = self.older.as_mut().filter(|older| older.count() > 0) {
            older.clear();
        }
    }

    #[cold]
    fn make_room(&mut self) {
        let older = self.older.get_or_insert_default();
        self.exact.drain(..).for_each(|duration| older.record(duration));
    }
}

/// Saved as a histogram, so that equal figures are saved equally however they are stored.
impl Persist for Samples {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let mut all = Histogram::default();
        self.add_to(&mut all);
        all.save(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.exact.clear();
        self.older.get_or_insert_default().load(name, from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_and_many_durations_above_a_threshold_are_counted() {
        for count in [100, 5000] {
            let mut samples = Samples::default();
            (1..=count).for_each(|ms| samples.record(SimDuration::from_millis(ms)));
            let above = samples.count_above(SimDuration::from_millis(count / 2)) as f64;
            let part = above / count as f64;
            assert!((part - 0.5).abs() < 0.01, "{part} of {count}");
            assert_eq!(samples.count_above(SimDuration::ZERO), count);
            assert_eq!(samples.count_above(SimDuration::from_secs(60)), 0);
        }
    }

    proptest! {
        #[test]
        fn the_figures_are_those_of_a_histogram(
            windows in prop::collection::vec(
                (prop::collection::vec(0u64..10_000_000_000, 0..700), 1u32..=100, any::<bool>()),
                1..4,
            ),
        ) {
            let (mut samples, mut totals) = (Samples::default(), Histogram::default());
            let mut expect_totals = Histogram::default();
            for (values, percent, is_restored) in windows {
                let mut expect = Histogram::default();
                for (number, value) in values.iter().enumerate() {
                    let duration = SimDuration::from_nanos(*value);
                    samples.record(duration);
                    expect.record(duration);
                    if is_restored && number == values.len() / 2 {
                        let mut snapshot = Snapshot::default();
                        samples.save("s", &mut snapshot);
                        samples = Samples::default();
                        samples.load("s", &snapshot).unwrap();
                    }
                }
                samples.add_to(&mut totals);
                expect_totals.merge(&expect);
                prop_assert_eq!(&totals, &expect_totals);
                prop_assert_eq!(samples.count(), expect.count());
                for part in [percent, 50, 100].map(Fraction::from_percent) {
                    prop_assert_eq!(samples.quantile(part), expect.quantile(part));
                }
                samples.clear();
                prop_assert_eq!((samples.count(), samples.quantile(Fraction::from_percent(50))), (0, None));
            }
        }
    }
}
