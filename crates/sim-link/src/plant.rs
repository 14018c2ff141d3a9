//! The plant that learned congestion controllers act on: one flow whose rate decisions set, beside flows of
//! today's controllers.

use homeostat_core::{Bounds, SeedTree, SimDuration};
use homeostat_decide::{BitsPerSecond, Decision, PathObservation, Plant, SendingRate};

use crate::controllers::controller_by_name;
use crate::flow::Sender;
use crate::link::{PACKET_BITS, PathConfig};
use crate::{Error, Network, Result};

/// The flow that decisions control.
const FLOW: usize = 0;

/// Packets at the present rate that a monitor interval holds at least. Deviation: half of a round-trip
/// time, as Aurora has it, holds none on a slow path with a short delay.
const LEAST_PACKETS: f64 = 10.0;

/// A path with one controlled flow.
pub struct LinkPlant {
    network: Network,
    observation: PathObservation,
    min_rtt: Option<SimDuration>,
    max_rtt: Option<SimDuration>,
}

impl LinkPlant {
    /// A path, the first rate of the controlled flow, and the names of the controllers of other flows.
    pub fn new(
        path: PathConfig,
        rate: BitsPerSecond,
        rivals: &[String],
        seeds: &SeedTree,
    ) -> Result<Self> {
        let mut network = Network::new(path, seeds)?;
        network.add(Sender::Rate(rate));
        for name in rivals {
            network.add(Sender::Controlled(controller_by_name(name)?));
        }
        let observation = network.end_interval(FLOW);
        Ok(Self { network, observation, min_rtt: None, max_rtt: None })
    }

    /// The same with an SLO: the mean round-trip time of an interval is at most this.
    pub fn with_max_rtt(mut self, max_rtt: SimDuration) -> Self {
        self.max_rtt = Some(max_rtt);
        self.observation.max_rtt = Some(max_rtt);
        self
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The length of the next monitor interval: at first one and a half of the least round-trip time, then half of
    /// the last one measured.
    fn next_interval(&self) -> SimDuration {
        let delay = self.network.path().delay.seconds();
        let measured = self.observation.rtt.or(self.min_rtt);
        let half = measured.map_or(3.0 * delay, |rtt| 0.5 * rtt.seconds());
        let rate = self.network.rate(FLOW).map_or(1.0, |rate| rate.0.max(1) as f64);
        let seconds = half.max(LEAST_PACKETS * PACKET_BITS as f64 / rate);
        SimDuration::from_seconds(seconds).unwrap_or(SimDuration::from_secs(1))
    }
}

impl Plant<SendingRate> for LinkPlant {
    type Error = Error;

    fn targets(&self) -> usize {
        1
    }

    fn advance(&mut self) -> Result<()> {
        let until = self.network.now() + self.next_interval();
        self.network.advance(until);
        let seen = self.network.end_interval(FLOW);
        self.min_rtt = self.min_rtt.into_iter().chain(seen.rtt).min();
        self.observation = PathObservation { min_rtt: self.min_rtt, max_rtt: self.max_rtt, ..seen };
        Ok(())
    }

    fn observe(&self, _target: usize) -> &PathObservation {
        &self.observation
    }

    fn apply(&mut self, _: usize, decision: &Decision<SendingRate>) -> Result<BitsPerSecond> {
        let rate = *decision.applied();
        self.network.set_rate(FLOW, rate)?;
        self.observation.rate = rate;
        Ok(rate)
    }
}

/// The rates that a controlled flow may have.
pub fn rate_bounds(least_mbps: f64, most_mbps: f64) -> Result<Bounds<BitsPerSecond>> {
    let bits = |megabits: f64| BitsPerSecond((megabits * 1e6).round() as u64);
    Ok(Bounds::try_new(bits(least_mbps), bits(most_mbps))?)
}
