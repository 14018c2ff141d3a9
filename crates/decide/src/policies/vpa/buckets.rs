//! Where the buckets of a histogram begin and end.

use crate::{Error, Result};

/// Buckets from zero up. The last one is open: it takes everything above its start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HistogramBuckets {
    /// All of one size.
    Linear {
        /// The size.
        size: f64,
        /// How many.
        count: usize,
    },
    /// Each larger than the one before by a factor.
    Exponential {
        /// Size of the first.
        first: f64,
        /// The factor.
        ratio: f64,
        /// How many.
        count: usize,
    },
}

impl HistogramBuckets {
    /// Buckets of one size that reach `most`.
    pub fn linear(most: f64, size: f64) -> Result<Self> {
        Error::unless_positive("largest value of a histogram", most)?;
        Error::unless_positive("bucket size", size)?;
        Ok(Self::Linear { size, count: (most / size).ceil() as usize + 1 })
    }

    /// Buckets that grow by `ratio` and reach `most`.
    pub fn exponential(most: f64, first: f64, ratio: f64) -> Result<Self> {
        Error::unless_positive("largest value of a histogram", most)?;
        Error::unless_positive("first bucket size", first)?;
        if !ratio.is_finite() || ratio <= 1.0 {
            return Err(Error::setting("bucket ratio", "a finite number above 1", ratio));
        }
        let count = (most * (ratio - 1.0) / first + 1.0).log(ratio).ceil() as usize + 1;
        Ok(Self::Exponential { first, ratio, count })
    }

    /// CPU in cores: 5 % steps from 10 millicores to 1000 cores.
    pub fn cpu() -> Self {
        Self::exponential(1000.0, 0.01, 1.05).expect("positive, and 1.05 is above 1")
    }

    /// Memory in bytes: 5 % steps from 10 MB to 1 TB.
    pub fn memory() -> Self {
        Self::exponential(1e12, 1e7, 1.05).expect("positive, and 1.05 is above 1")
    }

    /// Number of buckets.
    pub fn count(&self) -> usize {
        match self {
            Self::Linear { count, .. } | Self::Exponential { count, .. } => *count,
        }
    }

    /// The bucket that a value belongs to.
    pub fn find(&self, value: f64) -> usize {
        let bucket = match self {
            Self::Linear { size, .. } => value / size,
            Self::Exponential { first, .. } if value < *first => 0.0,
            Self::Exponential { first, ratio, .. } => {
                (value * (ratio - 1.0) / first + 1.0).log(*ratio)
            }
        };
        (bucket as usize).min(self.count() - 1)
    }

    /// Where a bucket begins.
    pub fn start(&self, bucket: usize) -> f64 {
        match self {
            Self::Linear { size, .. } => bucket as f64 * size,
            Self::Exponential { first, ratio, .. } => {
                first * (ratio.powf(bucket as f64) - 1.0) / (ratio - 1.0)
            }
        }
    }

    /// The value that represents this bucket: its end, so that no recommendation is below the
    /// usage. The last bucket has no end and is represented by its start.
    pub fn representative(&self, bucket: usize) -> f64 {
        self.start((bucket + 1).min(self.count() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(got: f64, expect: f64) {
        assert!((got - expect).abs() <= 1e-9 * expect.abs(), "{got} is not {expect}");
    }

    #[test]
    fn linear_buckets_reach_the_largest_value_and_one_more() {
        let buckets = HistogramBuckets::linear(5.0, 0.3).unwrap();
        assert_eq!(buckets.count(), 18);
        assert_close(buckets.start(17), 5.1);
        let check = |value, bucket| assert_eq!(buckets.find(value), bucket, "{value}");
        check(-1.0, 0);
        check(0.0, 0);
        check(1.3, 4);
        check(100.0, 17);
    }

    #[test]
    fn exponential_buckets_grow_by_their_ratio() {
        let buckets = HistogramBuckets::exponential(500.0, 40.0, 1.5).unwrap();
        assert_eq!(buckets.count(), 6);
        for (bucket, start) in [0.0, 40.0, 100.0, 190.0, 325.0, 527.5].into_iter().enumerate() {
            assert_close(buckets.start(bucket), start);
            assert_eq!(buckets.find(start + 1e-6), bucket);
        }
        let check = |value, bucket| assert_eq!(buckets.find(value), bucket, "{value}");
        check(-1.0, 0);
        check(39.99, 0);
        check(99.99, 1);
        check(1e9, 5);
    }

    #[test]
    fn buckets_that_cannot_exist_are_refused() {
        let check = |buckets: Result<HistogramBuckets>, expect: &str| {
            assert_eq!(buckets.unwrap_err().to_string(), expect);
        };
        check(
            HistogramBuckets::linear(f64::NAN, 1.0),
            "largest value of a histogram must be a finite number above 0, got NaN",
        );
        check(
            HistogramBuckets::linear(1.0, 0.0),
            "bucket size must be a finite number above 0, got 0",
        );
        check(
            HistogramBuckets::exponential(1.0, 0.1, 1.0),
            "bucket ratio must be a finite number above 1, got 1",
        );
    }
}
