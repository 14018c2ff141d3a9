//! Congestion controllers of today's transports, as rivals of learned ones.

mod bbr;
mod cubic;
mod reno;
mod vegas;

use homeostat_core::{SimDuration, SimTime};

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use reno::Reno;
pub use vegas::Vegas;

use crate::{Error, Result};

/// Packets that may be in flight before the first acknowledgement (RFC 6928).
pub(crate) const INITIAL_WINDOW: f64 = 10.0;

/// The least window, in packets.
pub(crate) const LEAST_WINDOW: f64 = 2.0;

/// Decides how much may be in flight, from acknowledgements and losses.
pub trait CongestionController: Send {
    /// The name, as people write it.
    fn name(&self) -> &'static str;

    /// A packet was acknowledged.
    fn on_ack(&mut self, ack: &Ack);

    /// Packets were declared lost.
    fn on_loss(&mut self, loss: &Loss);

    /// Nothing was acknowledged for so long that all packets in flight count as lost.
    fn on_timeout(&mut self, now: SimTime);

    /// Packets that may be in flight.
    fn window(&self) -> f64;

    /// Packets per second at which the window is sent; none for 5/4 of a window in a round-trip time.
    fn pacing_rate(&self) -> Option<f64> {
        None
    }
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ack {
    /// Its arrival.
    pub now: SimTime,
    /// Round-trip time of the packet.
    pub rtt: SimDuration,
    /// Smoothed round-trip time (RFC 9002).
    pub smoothed_rtt: SimDuration,
    /// Packets per second between the packet's departure and now.
    pub delivery_rate: f64,
    /// Packets delivered since the start, this one included.
    pub delivered: u64,
    /// Packets delivered when this packet was sent.
    pub delivered_when_sent: u64,
    /// Packets in flight, without this one.
    pub in_flight: u64,
}

/// A loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// When it was noticed.
    pub now: SimTime,
    /// Packets lost.
    pub packets: u64,
    /// Packets in flight after the loss.
    pub in_flight: u64,
    /// Whether one of them was sent after the last loss of which this was true: a window is reduced
    /// once in a round trip.
    pub is_new_episode: bool,
}

type Make = fn() -> Box<dyn CongestionController>;

const CONTROLLERS: [(&str, Make); 4] = [
    ("reno", || Box::new(Reno::default())),
    ("cubic", || Box::new(Cubic::default())),
    ("vegas", || Box::new(Vegas::default())),
    ("bbr", || Box::new(Bbr::default())),
];

/// The names of all controllers.
pub fn controller_names() -> impl Iterator<Item = &'static str> {
    CONTROLLERS.into_iter().map(|(name, _)| name)
}

/// A controller by name.
pub fn controller_by_name(name: &str) -> Result<Box<dyn CongestionController>> {
    let found = CONTROLLERS.into_iter().find(|(known, _)| *known == name);
    let (_, make) = found.ok_or_else(|| Error::Unknown {
        what: "congestion controller",
        name: name.to_owned(),
        known: controller_names().collect::<Vec<_>>().join(", "),
    })?;
    Ok(make())
}
