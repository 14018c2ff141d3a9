//! The bottleneck of a path: a queue that drops what it cannot hold, a transmitter, and the wire behind
//! it.

use std::collections::VecDeque;

use homeostat_core::{SimDuration, SimTime, Stream};
use homeostat_decide::BitsPerSecond;

use crate::Result;
use crate::error::check;

/// Bits of a packet: 1500 bytes, the largest payload of an Ethernet frame.
pub const PACKET_BITS: u64 = 12_000;

/// A path between two hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathConfig {
    /// Rate of the bottleneck.
    pub bandwidth: Bandwidth,
    /// Propagation delay of one direction.
    pub delay: SimDuration,
    /// Packets that wait for the transmitter, at most.
    pub queue: u32,
    /// Part of the packets that the wire loses.
    pub loss: f64,
    /// A packet's extra delay is uniform between zero and this part of the delay. Packets do not overtake.
    pub jitter: f64,
}

/// The rate of a bottleneck over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bandwidth {
    /// One rate.
    Constant(BitsPerSecond),
    /// Two rates in turn, as on a path that others use at times.
    Alternating {
        /// The first rate.
        first: BitsPerSecond,
        /// The second rate.
        second: BitsPerSecond,
        /// How long each lasts.
        every: SimDuration,
    },
}

impl Bandwidth {
    /// The rate at a time.
    pub fn at(&self, now: SimTime) -> BitsPerSecond {
        match *self {
            Self::Constant(rate) => rate,
            Self::Alternating { first, second, every } => {
                if (now.nanos() / every.nanos()).is_multiple_of(2) { first } else { second }
            }
        }
    }

    /// When a packet has left whose transmission begins at `start`. A rate that changes meanwhile counts.
    fn sent_by(&self, start: SimTime) -> SimTime {
        let mut bits = PACKET_BITS as f64;
        let mut now = start;
        loop {
            let rate = self.at(now).0 as f64;
            let needed = (bits / rate * 1e9).ceil() as u64;
            let Self::Alternating { every, .. } = self else {
                return now + SimDuration::from_nanos(needed);
            };
            let left = every.nanos() - now.nanos() % every.nanos();
            if needed <= left {
                return now + SimDuration::from_nanos(needed);
            }
            bits -= rate * left as f64 * 1e-9;
            now += SimDuration::from_nanos(left);
        }
    }

    fn rates(&self) -> [BitsPerSecond; 2] {
        match *self {
            Self::Constant(rate) => [rate, rate],
            Self::Alternating { first, second, .. } => [first, second],
        }
    }
}

impl PathConfig {
    /// A path without loss and jitter, and a queue of one product of bandwidth and round-trip time.
    pub fn clean(bandwidth: BitsPerSecond, delay: SimDuration) -> Self {
        let product = bandwidth.0 as f64 * 2.0 * delay.seconds() / PACKET_BITS as f64;
        Self {
            bandwidth: Bandwidth::Constant(bandwidth),
            delay,
            queue: (product.round() as u32).max(1),
            loss: 0.0,
            jitter: 0.0,
        }
    }

    /// The least round-trip time: propagation, and the transmission of one packet.
    pub fn least_rtt(&self) -> SimDuration {
        let highest = self.bandwidth.rates().into_iter().max().unwrap_or(BitsPerSecond(1));
        self.delay * 2 + SimDuration::from_nanos(PACKET_BITS * 1_000_000_000 / highest.0.max(1))
    }

    pub(crate) fn validate(&self) -> Result<()> {
        for rate in self.bandwidth.rates() {
            // Below, a packet takes minutes; above, nanoseconds no longer tell packets apart.
            check("bandwidth", rate.0 as f64, 100.0, 1e12)?;
        }
        if let Bandwidth::Alternating { every, .. } = self.bandwidth {
            check("seconds between changes of bandwidth", every.seconds(), 1e-3, 1e6)?;
        }
        check("delay in seconds", self.delay.seconds(), 0.0, 60.0)?;
        check("queue", self.queue.into(), 0.0, 1e7)?;
        check("loss", self.loss, 0.0, 0.9)?;
        check("jitter", self.jitter, 0.0, 100.0)
    }
}

/// What became of a packet that reached the bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives at the receiver.
    Arrives(SimTime),
    /// The queue was full.
    Dropped,
    /// The wire lost it.
    Lost,
}

/// The state of a bottleneck.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    path: PathConfig,
    /// When each packet inside will have left the transmitter.
    departures: VecDeque<SimTime>,
    last_arrival: SimTime,
    noise: Stream,
}

impl Link {
    pub(crate) fn new(path: PathConfig, noise: Stream) -> Result<Self> {
        path.validate()?;
        Ok(Self { path, departures: VecDeque::new(), last_arrival: SimTime::ZERO, noise })
    }

    pub(crate) fn path(&self) -> &PathConfig {
        &self.path
    }

    /// Packets that wait or are being sent.
    pub(crate) fn inside(&mut self, now: SimTime) -> usize {
        while self.departures.front().is_some_and(|departure| *departure <= now) {
            self.departures.pop_front();
        }
        self.departures.len()
    }

    /// A packet reaches the bottleneck.
    pub(crate) fn submit(&mut self, now: SimTime) -> Fate {
        // One more than the queue holds is being sent.
        if self.inside(now) > self.path.queue as usize {
            return Fate::Dropped;
        }
        let start = self.departures.back().copied().unwrap_or(now);
        let departure = self.path.bandwidth.sent_by(start);
        self.departures.push_back(departure);
        // Both numbers are drawn for every packet, so that a setting does not shift the other one's.
        let (loss, late) = (self.noise.uniform(), self.noise.uniform());
        if loss < self.path.loss {
            return Fate::Lost;
        }
        let extra = late * self.path.jitter * self.path.delay.nanos() as f64;
        let arrival = departure + self.path.delay + SimDuration::from_nanos(extra as u64);
        self.last_arrival = arrival.max(self.last_arrival);
        Fate::Arrives(self.last_arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn megabits(rate: u64) -> BitsPerSecond {
        BitsPerSecond(rate * 1_000_000)
    }

    fn link(path: PathConfig) -> Link {
        Link::new(path, Stream::from_seed(1)).unwrap()
    }

    fn at(millis: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_millis(millis)
    }

    #[test]
    fn packets_leave_one_after_the_other() {
        // 12 Mbit/s send a packet in a millisecond.
        let mut link = link(PathConfig::clean(megabits(12), SimDuration::from_millis(10)));
        assert_eq!(link.submit(at(0)), Fate::Arrives(at(11)));
        assert_eq!(link.submit(at(0)), Fate::Arrives(at(12)));
        assert_eq!(link.submit(at(5)), Fate::Arrives(at(16)));
    }

    #[test]
    fn a_full_queue_drops_the_packet_that_comes() {
        let path = PathConfig::clean(megabits(12), SimDuration::from_millis(10));
        let mut link = link(PathConfig { queue: 2, ..path });
        for place in 0..3 {
            assert_eq!(link.submit(at(0)), Fate::Arrives(at(11 + place)));
        }
        assert_eq!(link.submit(at(0)), Fate::Dropped);
        assert_eq!(link.submit(at(1)), Fate::Arrives(at(14)));
    }

    #[test]
    fn a_rate_that_changes_in_the_middle_of_a_packet_counts() {
        let every = SimDuration::from_millis(10);
        let bandwidth = Bandwidth::Alternating { first: megabits(12), second: megabits(6), every };
        // Half of the packet at 12 Mbit/s takes half a millisecond, the rest a whole one.
        let start = SimTime::from_nanos(9_500_000);
        assert_eq!(bandwidth.sent_by(start), at(10) + SimDuration::from_millis(1));
        assert_eq!(bandwidth.sent_by(at(12)), at(14));
    }

    #[test]
    fn the_wire_loses_the_given_part() {
        let path = PathConfig::clean(megabits(12), SimDuration::from_millis(10));
        let mut link = link(PathConfig { loss: 0.1, ..path });
        let lost = (0..20_000).filter(|place| link.submit(at(*place)) == Fate::Lost).count();
        // Four standard deviations of a binomial count.
        assert!((lost as f64 - 2000.0).abs() < 4.0 * 1800.0_f64.sqrt(), "{lost}");
    }

    #[test]
    fn jitter_does_not_change_the_order() {
        let path = PathConfig::clean(megabits(12), SimDuration::from_millis(10));
        let mut link = link(PathConfig { jitter: 1.0, ..path });
        let mut last = SimTime::ZERO;
        for place in 0..1000 {
            let Fate::Arrives(arrival) = link.submit(at(place)) else { panic!("no loss") };
            assert!(arrival >= last && arrival >= at(place + 11) && arrival <= at(place + 22));
            last = arrival;
        }
    }

    #[test]
    fn the_wait_of_random_packets_is_that_of_the_queue_with_constant_service() {
        // M/D/1 at 80 % load: the mean wait is load / (2 (1 - load)) = 2 transmission times.
        let path = PathConfig::clean(megabits(12), SimDuration::ZERO);
        let mut link = link(PathConfig { queue: 1_000_000, ..path });
        let mut gaps = Stream::from_seed(2);
        let (mut now, mut waits, packets) = (0.0, 0.0, 400_000);
        for _ in 0..packets {
            now += -(1.0 - gaps.uniform()).ln() / 800.0;
            let arrived = SimTime::from_nanos((now * 1e9) as u64);
            let Fate::Arrives(arrival) = link.submit(arrived) else { panic!("no loss") };
            waits += arrival.saturating_since(arrived).seconds() - 1e-3;
        }
        let mean = waits / f64::from(packets) / 1e-3;
        assert!((mean - 2.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn a_path_that_cannot_be_is_refused_with_its_value() {
        let path = PathConfig::clean(megabits(12), SimDuration::ZERO);
        let refused = |path: PathConfig, part: &str| {
            let error = Link::new(path, Stream::from_seed(1)).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(PathConfig { loss: f64::NAN, ..path }, "loss = NaN");
        refused(PathConfig { jitter: -1.0, ..path }, "jitter = -1");
        let bandwidth = Bandwidth::Constant(BitsPerSecond(0));
        refused(PathConfig { bandwidth, ..path }, "bandwidth = 0");
    }
}
