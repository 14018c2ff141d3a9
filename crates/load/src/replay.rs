//! Replays a trace of counts: each minute has exactly the counted number of requests, at uniformly
//! random times.
//!
//! The times of a minute are neither stored nor sorted. Of `k` remaining uniform times, the
//! fraction of the remaining minute after the earliest is the `k`-th root of a uniform number, so
//! that each time follows from the one before (Bentley and Saxe, "Generating Sorted Lists of
//! Random Numbers", 1980).

use homeostat_core::{Error, Persist, SimDuration, SimTime, Snapshot, Stream};

const MINUTE: SimDuration = SimDuration::from_secs(60);

/// The arrivals of one function, from its requests per minute.
#[derive(Debug, Clone)]
pub struct TraceArrivals {
    counts: Vec<u32>,
    rng: Stream,
    /// The present minute.
    minute: usize,
    /// Requests left in it.
    left: u32,
    /// Fraction of it that is left.
    ahead: f64,
}

impl TraceArrivals {
    /// The trace from its first minute, which starts at time zero.
    pub fn new(counts: Vec<u32>, rng: Stream) -> Self {
        let left = counts.first().copied().unwrap_or(0);
        Self { counts, rng, minute: 0, left, ahead: 1.0 }
    }

    /// The next arrival; none if there are no more. Times never decrease; two requests of a very
    /// busy minute can share a nanosecond.
    pub fn next_arrival(&mut self) -> Option<SimTime> {
        while self.left == 0 {
            self.minute = (self.minute + 1).min(self.counts.len());
            self.left = *self.counts.get(self.minute)?;
            self.ahead = 1.0;
        }
        // The logarithm of a number in (0, 1] over `left` is that of its root.
        let root = ((1.0 - self.rng.uniform()).ln() / f64::from(self.left)).exp();
        self.ahead *= root;
        self.left -= 1;
        let inside = ((1.0 - self.ahead) * MINUTE.nanos() as f64) as u64;
        let inside = SimDuration::from_nanos(inside.min(MINUTE.nanos() - 1));
        Some(SimTime::ZERO + MINUTE * self.minute as u64 + inside)
    }

    /// The mean rate of the present minute. Controllers do not know it.
    pub fn rate_per_second(&self) -> f64 {
        let count = self.counts.get(self.minute).copied().unwrap_or(0);
        f64::from(count) / MINUTE.seconds()
    }
}

/// The counts are not saved: restore into a replay of the same counts.
impl Persist for TraceArrivals {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rng.save(&format!("{name}/rng"), out);
        let minutes = self.counts.len() as u64;
        let place = [minutes, self.minute as u64, u64::from(self.left)];
        out.put_u64(&format!("{name}/place"), place);
        out.put_f64(&format!("{name}/ahead"), [self.ahead]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.rng.load(&format!("{name}/rng"), from)?;
        let place_name = format!("{name}/place");
        let place = from.u64s(&place_name, 3)?;
        let minute = usize::try_from(place[1]).unwrap_or(usize::MAX);
        let left = u32::try_from(place[2]).unwrap_or(u32::MAX);
        let is_same_trace = place[0] == self.counts.len() as u64
            && minute <= self.counts.len()
            && left <= self.counts.get(minute).copied().unwrap_or(0);
        if !is_same_trace {
            return Err(Error::SnapshotMismatch {
                name: place_name,
                found: format!("minute {} of {} with {} to come", place[1], place[0], place[2]),
                expected: format!("a place in a trace of {} minutes", self.counts.len()),
            });
        }
        (self.minute, self.left) = (minute, left);
        self.ahead = from.f64s(&format!("{name}/ahead"), 1)?[0];
        Ok(())
    }
}
