//! Cumulative histograms, as Prometheus has them.

/// Counts of observations up to each bound, in order; the last bound is infinite.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    bounds: Vec<f64>,
    counts: Vec<f64>,
}

/// A percentile of a histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Percentile {
    /// Interpolated inside its bucket.
    At(f64),
    /// Beyond this bound, the last finite one.
    Beyond(f64),
}

impl Histogram {
    /// From bounds with their cumulative counts; why it is none otherwise.
    pub fn try_new(mut buckets: Vec<(f64, f64)>) -> Result<Self, String> {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (bounds, counts): (Vec<f64>, Vec<f64>) = buckets.into_iter().unzip();
        if bounds.last() != Some(&f64::INFINITY) {
            return Err("its last bucket is not le=\"+Inf\"".to_owned());
        }
        // Counts are whole numbers that a double has exactly.
        let is_count = |count: &&f64| !(0.0..=9e15).contains(*count);
        if let Some(count) = counts.iter().find(is_count) {
            return Err(format!("{count} is no count"));
        }
        match counts.is_sorted() {
            true => Ok(Self { bounds, counts }),
            false => Err("its counts fall from one bucket to the next".to_owned()),
        }
    }

    /// Observations.
    pub fn count(&self) -> f64 {
        self.counts.last().copied().unwrap_or(0.0)
    }

    /// What was observed since an earlier state; none if the process was started again in between.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        if self.bounds != earlier.bounds {
            return None;
        }
        let counts: Vec<f64> =
            self.counts.iter().zip(&earlier.counts).map(|(now, then)| now - then).collect();
        let is_possible = counts.first().is_none_or(|count| *count >= 0.0) && counts.is_sorted();
        is_possible.then(|| Self { bounds: self.bounds.clone(), counts })
    }

    /// A percentile from 0 to 1; none without observations.
    pub fn percentile(&self, percentile: f64) -> Option<Percentile> {
        let count = self.count();
        if count <= 0.0 {
            return None;
        }
        let rank = percentile * count;
        let place = self.counts.partition_point(|count| *count < rank);
        let place = place.min(self.counts.len() - 1);
        let below = place.checked_sub(1);
        let (low, before) =
            below.map_or((0.0, 0.0), |below| (self.bounds[below], self.counts[below]));
        let high = self.bounds[place];
        if high.is_infinite() {
            return Some(Percentile::Beyond(low));
        }
        let inside = (self.counts[place] - before).max(f64::MIN_POSITIVE);
        Some(Percentile::At(low + (high - low) * ((rank - before) / inside).clamp(0.0, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn histogram(counts: [f64; 4]) -> Histogram {
        let bounds = [0.1, 0.2, 0.4, f64::INFINITY];
        Histogram::try_new(bounds.into_iter().zip(counts).collect()).unwrap()
    }

    #[test]
    fn percentiles_are_interpolated_as_prometheus_does() {
        let check = |counts, percentile, expect| {
            assert_eq!(histogram(counts).percentile(percentile), expect);
        };
        check([0.0; 4], 0.99, None);
        check([0.0, 10.0, 10.0, 10.0], 0.5, Some(Percentile::At(0.15000000000000002)));
        check([50.0, 100.0, 100.0, 100.0], 0.5, Some(Percentile::At(0.1)));
        check([0.0, 0.0, 100.0, 100.0], 1.0, Some(Percentile::At(0.4)));
        check([0.0, 0.0, 90.0, 100.0], 0.99, Some(Percentile::Beyond(0.4)));
    }

    #[test]
    fn a_difference_of_counters_that_started_again_is_none() {
        let early = histogram([1.0, 5.0, 9.0, 9.0]);
        let late = histogram([1.0, 6.0, 12.0, 13.0]);
        assert_eq!(late.since(&early), Some(histogram([0.0, 1.0, 3.0, 4.0])));
        assert_eq!(early.since(&late), None);
        let other = Histogram::try_new(vec![(f64::INFINITY, 99.0)]).unwrap();
        assert_eq!(other.since(&early), None);
    }

    #[test]
    fn counts_that_cannot_be_are_refused() {
        let check = |buckets: &[(f64, f64)], expect: &str| {
            assert_eq!(Histogram::try_new(buckets.to_vec()).unwrap_err(), expect);
        };
        check(&[], "its last bucket is not le=\"+Inf\"");
        check(&[(1.0, 3.0)], "its last bucket is not le=\"+Inf\"");
        check(&[(1.0, f64::NAN), (f64::INFINITY, 3.0)], "NaN is no count");
        check(&[(1.0, -1.0), (f64::INFINITY, 3.0)], "-1 is no count");
        check(&[(f64::INFINITY, 1e300)], &format!("{} is no count", 1e300));
        check(&[(1.0, 4.0), (f64::INFINITY, 3.0)], "its counts fall from one bucket to the next");
    }

    proptest! {
        #[test]
        fn a_percentile_lies_in_the_bucket_that_holds_it(
            inside in prop::collection::vec(0_u32..50, 4),
            percentile in 0.0..1.0,
        ) {
            let mut total = 0.0;
            let counts = std::array::from_fn(|place| { total += f64::from(inside[place]); total });
            match histogram(counts).percentile(percentile) {
                None => prop_assert_eq!(total, 0.0),
                Some(Percentile::At(at)) => prop_assert!((0.0..=0.4).contains(&at)),
                Some(Percentile::Beyond(bound)) => prop_assert_eq!(bound, 0.4),
            }
        }
    }
}
