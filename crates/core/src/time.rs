//! Simulated time in integer nanoseconds: exact, ordered, no epsilon.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

use crate::{Error, Result};

const NANOS_PER_SECOND: f64 = 1e9;

/// A point in simulated time, counted from the start of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimTime(u64);

/// A length of simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimDuration(u64);

impl SimTime {
    /// The start of the simulation.
    pub const ZERO: Self = Self(0);

    /// The point this many nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND
    }

    /// Time since `earlier`, or zero if `earlier` is not earlier.
    pub const fn saturating_since(self, earlier: Self) -> SimDuration {
        SimDuration(self.0.saturating_sub(earlier.0))
    }
}

impl SimDuration {
    /// Zero length.
    pub const ZERO: Self = Self(0);

    /// Whole nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Whole milliseconds, saturating.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Whole seconds, saturating.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Seconds, rounded to the nearest nanosecond.
    pub fn from_seconds(seconds: f64) -> Result<Self> {
        let most = u64::MAX as f64 / NANOS_PER_SECOND;
        if !seconds.is_finite() || seconds < 0.0 || seconds >= most {
            return Err(Error::Quantity { quantity: "seconds", value: seconds, most });
        }
        Ok(Self((seconds * NANOS_PER_SECOND).round() as u64))
    }

    /// The number of nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The length in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND
    }
}

/// Saturates at the end of time, 584 years after the start.
impl Add<SimDuration> for SimTime {
    type Output = Self;
    fn add(self, duration: SimDuration) -> Self {
        Self(self.0.saturating_add(duration.0))
    }
}

impl AddAssign<SimDuration> for SimTime {
    fn add_assign(&mut self, duration: SimDuration) {
        *self = *self + duration;
    }
}

impl Add for SimDuration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Saturates at zero.
impl Sub for SimDuration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for SimDuration {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl fmt::Display for SimDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", std::time::Duration::from_nanos(self.0))
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{}", SimDuration(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_small_steps_add_up_exactly() {
        let step = SimDuration::from_seconds(0.1).unwrap();
        let end = (0..1_000_000).fold(SimTime::ZERO, |now, _| now + step);
        assert_eq!(end, SimTime::from_nanos(100_000 * 1_000_000_000));
    }

    #[test]
    fn durations_read_like_people_write_them() {
        assert_eq!(SimDuration::from_millis(46).to_string(), "46ms");
        assert_eq!((SimTime::ZERO + SimDuration::from_secs(2)).to_string(), "t+2s");
    }

    #[test]
    fn negative_and_endless_durations_are_refused() {
        for seconds in [-1.0, f64::NAN, f64::INFINITY, 1e12] {
            assert!(SimDuration::from_seconds(seconds).is_err(), "{seconds}");
        }
    }
}
