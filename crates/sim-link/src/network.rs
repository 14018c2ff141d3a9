//! Flows that share one path, event by event.

use homeostat_core::{SeedTree, SimDuration, SimTime};
use homeostat_decide::{BitsPerSecond, PathObservation};
use homeostat_des::Timers;

use crate::flow::{Flow, FlowTotals, Sender};
use crate::interval::Interval;
use crate::link::{Fate, Link, PACKET_BITS, PathConfig};
use crate::{Error, Result};

/// Kinds of timers of a flow, in the order in which simultaneous events of a flow happen; the third is sending.
const ACK: usize = 0;
const TIMEOUT: usize = 1;
const KINDS: usize = 3;

/// A bottleneck and the flows on it.
///
/// ```
/// use homeostat_core::{SeedTree, SimDuration, SimTime};
/// use homeostat_decide::BitsPerSecond;
/// use homeostat_sim_link::{Network, PathConfig, Sender, controller_by_name};
///
/// # fn main() -> Result<(), homeostat_sim_link::Error> {
/// let path = PathConfig::clean(BitsPerSecond(12_000_000), SimDuration::from_millis(20));
/// let mut network = Network::new(path, &SeedTree::new(1))?;
/// let flow = network.add(Sender::Controlled(controller_by_name("cubic")?));
/// network.advance(SimTime::ZERO + SimDuration::from_secs(20));
/// // The path carries a thousand packets per second.
/// assert!(network.totals(flow).acked > 19_000);
/// # Ok(())
/// # }
/// ```
pub struct Network {
    link: Link,
    flows: Vec<Flow>,
    timers: Timers,
    now: SimTime,
}

impl Network {
    /// A path without flows. Refuses rates, delays and losses that cannot be.
    pub fn new(path: PathConfig, seeds: &SeedTree) -> Result<Self> {
        let link = Link::new(path, seeds.stream("link"))?;
        let timers = Timers::default();
        Ok(Self { link, flows: Vec::new(), timers, now: SimTime::ZERO })
    }

    /// Adds a flow that starts now, and returns its number.
    pub fn add(&mut self, sender: Sender) -> usize {
        let number = self.flows.len();
        self.flows.push(Flow::new(sender, self.now));
        self.set_timers(number);
        number
    }

    /// The present.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// The path.
    pub fn path(&self) -> &PathConfig {
        self.link.path()
    }

    /// Counts of a flow.
    pub fn totals(&self, flow: usize) -> FlowTotals {
        self.flows[flow].totals()
    }

    /// Packets of a flow without a fate.
    pub fn in_flight(&self, flow: usize) -> u64 {
        self.flows[flow].in_flight()
    }

    /// The rate of a flow; none under a congestion controller.
    pub fn rate(&self, flow: usize) -> Option<BitsPerSecond> {
        self.flows[flow].rate()
    }

    /// Changes the rate of a flow. Refuses a flow under a congestion controller.
    pub(crate) fn set_rate(&mut self, flow: usize, rate: BitsPerSecond) -> Result<()> {
        if !self.flows[flow].set_rate(rate, self.now) {
            return Err(Error::Unknown {
                what: "flow with a rate",
                name: flow.to_string(),
                known: "the flows that were added with Sender::Rate".to_owned(),
            });
        }
        self.set_timers(flow);
        Ok(())
    }

    /// Processes every event up to a time.
    pub fn advance(&mut self, until: SimTime) {
        while let Some((at, owner)) = self.timers.first().filter(|(at, _)| *at <= until) {
            self.now = at.max(self.now);
            let flow = owner / KINDS;
            match owner % KINDS {
                ACK => self.flows[flow].take_ack(self.now),
                TIMEOUT => self.flows[flow].time_out(self.now),
                _ => self.send(flow),
            }
            self.set_timers(flow);
        }
        self.now = until.max(self.now);
    }

    /// Ends the monitor interval of a flow, and returns what the sender saw in it. The least round-trip time
    /// is the caller's to keep.
    pub(crate) fn end_interval(&mut self, flow: usize) -> PathObservation {
        let rate = self.flows[flow].rate().unwrap_or(BitsPerSecond(0));
        let ended = std::mem::replace(self.flows[flow].interval(), Interval::new(self.now));
        let interval = self.now.saturating_since(ended.start);
        let bits = (ended.acked * PACKET_BITS) as f64 / interval.seconds().max(1e-9);
        PathObservation {
            now: self.now,
            rate,
            interval,
            sent: ended.sent,
            acked: ended.acked,
            lost: ended.lost,
            throughput: BitsPerSecond(bits as u64),
            rtt: ended.mean_rtt().map(|rtt| SimDuration::from_nanos((rtt * 1e9) as u64)),
            min_rtt: None,
            rtt_gradient: ended.rtt_gradient(),
            max_rtt: None,
        }
    }

    fn send(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        let packet = flow.send(self.now);
        match self.link.submit(self.now) {
            Fate::Arrives(at) => flow.note_arrival(at + self.link.path().delay, packet),
            Fate::Dropped => flow.note_dropped(),
            Fate::Lost => flow.note_lost_on_wire(),
        }
    }

    fn set_timers(&mut self, number: usize) {
        let flow = &self.flows[number];
        let soonest = |at: Option<SimTime>| at.map(|at| at.max(self.now));
        let times = [flow.next_ack(), flow.timeout(), soonest(flow.next_send())];
        for (kind, at) in times.into_iter().enumerate() {
            let owner = number * KINDS + kind;
            if self.timers.time(owner) != at {
                self.timers.set_or_clear(owner, at);
            }
        }
    }
}
