//! Closed ranges.

use std::fmt;

use crate::{Error, Result};

/// An inclusive lower and upper bound, with `low <= high` by construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds<T> {
    low: T,
    high: T,
}

impl<T: PartialOrd + Copy + fmt::Display> Bounds<T> {
    /// An error if the bounds are reversed or cannot be compared (NaN).
    pub fn try_new(low: T, high: T) -> Result<Self> {
        if low <= high {
            Ok(Self { low, high })
        } else {
            Err(Error::BoundsReversed { low: low.to_string(), high: high.to_string() })
        }
    }

    /// The lower bound.
    pub fn low(&self) -> T {
        self.low
    }

    /// The upper bound.
    pub fn high(&self) -> T {
        self.high
    }

    /// Whether the value lies inside, bounds included.
    pub fn contains(&self, value: T) -> bool {
        self.low <= value && value <= self.high
    }

    /// The nearest value inside. A value that cannot be compared becomes the lower bound.
    pub fn clamp(&self, value: T) -> T {
        if value > self.high {
            self.high
        } else if value >= self.low {
            value
        } else {
            self.low
        }
    }

    /// These bounds, each clamped to `outer`.
    pub fn inside(&self, outer: &Self) -> Self {
        Self { low: outer.clamp(self.low), high: outer.clamp(self.high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reversed_or_incomparable_ends_are_refused() {
        let error = Bounds::try_new(4, 2).unwrap_err().to_string();
        assert_eq!(error, "lower bound 4 is above upper bound 2: swap them or widen the range");
        assert!(Bounds::try_new(f64::NAN, 1.0).is_err());
    }

    #[test]
    fn bounds_are_cut_to_others_and_moved_to_their_end_if_they_have_nothing_in_common() {
        let outer = Bounds::try_new(10, 20).unwrap();
        let inside = |low, high| Bounds::try_new(low, high).unwrap().inside(&outer);
        assert_eq!(inside(5, 15), Bounds::try_new(10, 15).unwrap());
        assert_eq!(inside(1, 2), Bounds::try_new(10, 10).unwrap());
    }

    proptest! {
        #[test]
        fn clamped_values_lie_inside(low in -9i64..9, span in 0i64..9, value in any::<i64>()) {
            let bounds = Bounds::try_new(low, low + span).unwrap();
            prop_assert!(bounds.contains(bounds.clamp(value)));
            prop_assert!(!bounds.contains(value) || bounds.clamp(value) == value);
        }
    }
}
