//! What a sender sees in one monitor interval.

use homeostat_core::{SimDuration, SimTime};

/// Counts of a monitor interval. Acknowledgements and losses count when they are noticed, as in the
/// simulator of Aurora.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Interval {
    pub(crate) start: SimTime,
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    pub(crate) lost: u64,
    rtt: f64,
    /// Sums of the least-squares line of round-trip times, in seconds since the start.
    time: f64,
    time_squared: f64,
    time_rtt: f64,
}

impl Interval {
    pub(crate) fn new(start: SimTime) -> Self {
        Self {
            start,
            sent: 0,
            acked: 0,
            lost: 0,
            rtt: 0.0,
            time: 0.0,
            time_squared: 0.0,
            time_rtt: 0.0,
        }
    }

    pub(crate) fn acknowledge(&mut self, rtt: SimDuration, now: SimTime) {
        let (rtt, time) = (rtt.seconds(), now.saturating_since(self.start).seconds());
        self.acked += 1;
        self.rtt += rtt;
        self.time += time;
        self.time_squared += time * time;
        self.time_rtt += time * rtt;
    }

    /// Mean round-trip time in seconds; none without an acknowledgement.
    pub(crate) fn mean_rtt(&self) -> Option<f64> {
        (self.acked > 0).then(|| self.rtt / self.acked as f64)
    }

    /// Slope of the round-trip time, seconds per second; zero for fewer than two acknowledgements.
    pub(crate) fn rtt_gradient(&self) -> f64 {
        let count = self.acked as f64;
        let spread = count * self.time_squared - self.time * self.time;
        // Rounding leaves a little where all arrived at once.
        if self.acked < 2 || spread <= 1e-12 * count * self.time_squared {
            return 0.0;
        }
        (count * self.time_rtt - self.time * self.rtt) / spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_is_the_slope_of_a_line() {
        let start = SimTime::ZERO + SimDuration::from_secs(7);
        let mut interval = Interval::new(start);
        for step in 0..10 {
            // Ten milliseconds later, two milliseconds slower.
            let now = start + SimDuration::from_millis(10 * step);
            interval.acknowledge(SimDuration::from_millis(50 + 2 * step), now);
        }
        assert!((interval.rtt_gradient() - 0.2).abs() < 1e-9);
        assert!((interval.mean_rtt().unwrap() - 0.059).abs() < 1e-12);
    }

    #[test]
    fn one_packet_has_no_gradient() {
        let mut interval = Interval::new(SimTime::ZERO);
        assert_eq!((interval.mean_rtt(), interval.rtt_gradient()), (None, 0.0));
        interval.acknowledge(SimDuration::from_millis(50), SimTime::ZERO);
        interval.acknowledge(SimDuration::from_millis(90), SimTime::ZERO);
        assert_eq!(interval.rtt_gradient(), 0.0);
    }
}
