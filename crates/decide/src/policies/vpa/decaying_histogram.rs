//! A histogram that forgets: weights halve with every half-life.
//!
//! Instead of making old weights smaller all the time, new ones are added larger, relative to
//! a reference time. Before the factor overflows, the reference moves on and all weights are
//! scaled back by a power of two, which loses nothing.

use homeostat_core::{Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use super::buckets::HistogramBuckets;
use super::histogram::{HistogramCheckpoint, UsageHistogram};
use crate::{Error, Result};

/// Half-lives from the reference after which it moves on: factors stay below 2^100.
const LARGEST_EXPONENT: u64 = 100;

/// A histogram whose weights halve with every half-life.
#[derive(Debug, Clone, PartialEq)]
pub struct DecayingHistogram {
    histogram: UsageHistogram,
    half_life: SimDuration,
    reference: SimTime,
}

/// Checkpoint of a [`DecayingHistogram`].
#[derive(Debug, Clone, PartialEq)]
pub struct DecayingCheckpoint {
    /// Time that the weights are relative to.
    pub reference: SimTime,
    /// The weights.
    pub histogram: HistogramCheckpoint,
}

impl DecayingHistogram {
    /// An empty histogram. Refuses a half-life of zero.
    pub fn new(buckets: HistogramBuckets, epsilon: f64, half_life: SimDuration) -> Result<Self> {
        if half_life == SimDuration::ZERO {
            return Err(Error::setting("half-life", "above 0", half_life));
        }
        let histogram = UsageHistogram::new(buckets, epsilon);
        Ok(Self { histogram, half_life, reference: SimTime::ZERO })
    }

    /// Adds a value as of a time.
    pub fn add(&mut self, value: f64, weight: f64, at: SimTime) {
        let factor = self.factor(at);
        self.histogram.add(value, weight * factor);
    }

    /// Takes a value back that was added as of this time.
    pub fn subtract(&mut self, value: f64, weight: f64, at: SimTime) {
        let factor = self.factor(at);
        self.histogram.subtract(value, weight * factor);
    }

    /// The value that this part of the weight does not exceed; 0 if empty.
    pub fn percentile(&self, part: f64) -> f64 {
        self.histogram.percentile(part)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// The state in Kubernetes' lossy form.
    pub fn checkpoint(&self) -> DecayingCheckpoint {
        let histogram = self.histogram.checkpoint();
        DecayingCheckpoint { reference: self.reference, histogram }
    }

    /// Replaces the state by a checkpoint's. On an error nothing changes.
    pub fn restore_checkpoint(&mut self, checkpoint: &DecayingCheckpoint) -> Result<()> {
        let mut histogram = self.histogram.clone();
        histogram.scale(0.0);
        histogram.add_checkpoint(&checkpoint.histogram)?;
        self.histogram = histogram;
        self.reference = checkpoint.reference;
        Ok(())
    }

    /// How much a weight of this time counts, relative to the reference.
    fn factor(&mut self, at: SimTime) -> f64 {
        if at > self.reference + self.half_life * LARGEST_EXPONENT {
            self.move_reference(at);
        }
        let after = at.saturating_since(self.reference).seconds();
        let before = self.reference.saturating_since(at).seconds();
        ((after - before) / self.half_life.seconds()).exp2()
    }

    fn move_reference(&mut self, to: SimTime) {
        // Whole half-lives only, so that scaling is by a power of two and exact.
        let half_life = self.half_life.nanos();
        let passed = to.saturating_since(self.reference).nanos();
        let half_lives = passed / half_life + u64::from(passed % half_life >= half_life / 2);
        self.histogram.scale((-(half_lives as f64)).exp2());
        self.reference += self.half_life * half_lives;
    }
}

impl Persist for DecayingHistogram {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.histogram.save(name, out);
        out.put_u64(&format!("{name}/reference"), [self.reference.nanos()]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.histogram.load(name, from)?;
        self.reference = SimTime::from_nanos(from.u64s(&format!("{name}/reference"), 1)?[0]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: SimDuration = SimDuration::from_secs(3600);

    fn at(hour: u64) -> SimTime {
        SimTime::ZERO + HOUR * hour
    }

    fn empty() -> DecayingHistogram {
        DecayingHistogram::new(HistogramBuckets::linear(10.0, 1.0).unwrap(), 1e-3, HOUR).unwrap()
    }

    fn assert_percentiles(histogram: &DecayingHistogram, expect: &[(f64, f64)]) {
        for (part, value) in expect {
            assert_eq!(histogram.percentile(*part), *value, "p{part}");
        }
    }

    #[test]
    fn younger_samples_weigh_more() {
        let mut histogram = empty();
        for value in 1..=4u32 {
            histogram.add(f64::from(value), f64::from(value), at(u64::from(value) - 1));
        }
        assert_percentiles(
            &histogram,
            &[(0.0, 2.0), (0.02, 2.0), (0.03, 3.0), (0.10, 3.0), (0.11, 4.0), (0.34, 4.0)],
        );
        assert_percentiles(&histogram, &[(0.35, 5.0), (1.0, 5.0)]);
    }

    #[test]
    fn a_thousandfold_weight_is_forgotten_after_twenty_half_lives() {
        let mut histogram = empty();
        histogram.add(2.0, 1000.0, at(0));
        histogram.add(1.0, 1.0, at(20));
        assert_percentiles(&histogram, &[(0.999, 2.0), (1.0, 3.0)]);
    }

    #[test]
    fn after_a_hundred_half_lives_nothing_is_left() {
        let mut histogram = empty();
        histogram.add(2.0, 1.0, at(0));
        histogram.add(1.0, 1.0, at(101));
        assert_percentiles(&histogram, &[(1.0, 2.0)]);
    }

    #[test]
    fn moving_the_reference_changes_no_percentile() {
        let mut near = empty();
        let mut far = empty();
        for (value, hour) in [(1.0, 0), (5.0, 1), (3.0, 2), (7.0, 3)] {
            near.add(value, 1.0, at(hour));
            far.add(value, 1.0, at(5000 + hour));
        }
        for part in [0.05, 0.1, 0.3, 0.6, 0.9] {
            assert_eq!(near.percentile(part), far.percentile(part));
        }
    }

    #[test]
    fn a_checkpoint_keeps_the_percentiles_and_the_reference() {
        let mut histogram = empty();
        for (value, hour) in [(1.0, 140), (5.0, 150), (3.0, 151)] {
            histogram.add(value, 1.0, at(hour));
        }
        let mut restored = empty();
        restored.add(9.0, 1e6, at(1));
        restored.restore_checkpoint(&histogram.checkpoint()).unwrap();
        for histogram in [&mut histogram, &mut restored] {
            histogram.add(8.0, 1.0, at(152));
        }
        for part in [0.1, 0.3, 0.5, 0.99] {
            assert_eq!(histogram.percentile(part), restored.percentile(part));
        }
        let mut refused = restored.checkpoint();
        refused.histogram.total = -1.0;
        let before = restored.clone();
        assert!(restored.restore_checkpoint(&refused).is_err());
        assert_eq!(restored, before);
    }
}
