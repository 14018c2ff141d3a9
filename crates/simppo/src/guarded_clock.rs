//! A clock that survives the jumps of the clock it is read from.

use std::time::Duration;

/// Counts on from zero. A reading that lies before the last one, or further after it than one
/// heartbeat, says more about the caller's clock (or a machine that slept) than about the
/// agents: the first counts as no time, the second as one heartbeat. So no jump silences
/// all at once, and none stops silence from being noticed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GuardedClock {
    /// The most that one reading may add.
    most: Duration,
    last_reading: Option<Duration>,
    now: Duration,
    jumps: u64,
}

impl GuardedClock {
    pub(crate) fn new(most: Duration) -> Self {
        Self { most, last_reading: None, now: Duration::ZERO, jumps: 0 }
    }

    /// Takes a reading of the caller's clock.
    pub(crate) fn read(&mut self, reading: Duration) {
        let last = self.last_reading.replace(reading).unwrap_or(reading);
        match reading.checked_sub(last) {
            Some(passed) if passed <= self.most => self.now += passed,
            Some(_) => {
                self.now += self.most;
                self.jumps += 1;
            }
            None => self.jumps += 1,
        }
    }

    /// Time that has passed.
    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    /// Readings that were not believed.
    pub(crate) fn jumps(&self) -> u64 {
        self.jumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_count_as_one_heartbeat_forward_and_as_nothing_backward() {
        let mut clock = GuardedClock::new(Duration::from_secs(1));
        let mut check = |reading_ms: u64, now_ms: u64, jumps: u64| {
            clock.read(Duration::from_millis(reading_ms));
            assert_eq!((clock.now().as_millis(), clock.jumps()), (u128::from(now_ms), jumps));
        };
        check(5_000, 0, 0);
        check(5_400, 400, 0);
        check(99_000, 1_400, 1);
        check(99_100, 1_500, 1);
        check(3_000, 1_500, 2);
        check(3_250, 1_750, 2);
    }
}
