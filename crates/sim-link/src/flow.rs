//! A sender: packet numbers, round-trip times, loss detection and pacing as in QUIC (RFC 9002), under a
//! congestion controller or at a rate that decisions set.

use std::collections::VecDeque;

use homeostat_core::{SimDuration, SimTime};
use homeostat_decide::BitsPerSecond;

use crate::controllers::{Ack, CongestionController, Loss};
use crate::interval::Interval;
use crate::link::PACKET_BITS;

/// Later packets whose acknowledgement makes a packet lost (RFC 9002, 6.1.1).
const PACKET_THRESHOLD: u64 = 3;

/// The round-trip time assumed before the first acknowledgement (RFC 9002, 6.2.2).
const INITIAL_RTT: SimDuration = SimDuration::from_millis(333);

/// The least margin of a timeout (RFC 9002, 6.1.2).
const GRANULARITY: SimDuration = SimDuration::from_millis(1);

/// The longest timeout (RFC 6298, 2.5).
const MAX_TIMEOUT: SimDuration = SimDuration::from_secs(60);

/// What decides when a packet is sent.
pub enum Sender {
    /// A constant rate, whatever is in flight; decisions change it ([`LinkPlant`](crate::LinkPlant)).
    Rate(BitsPerSecond),
    /// A congestion controller.
    Controlled(Box<dyn CongestionController>),
}

/// Counts of a flow since its start. All packets have one size, and there is always data to send.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FlowTotals {
    /// Packets sent.
    pub sent: u64,
    /// Packets acknowledged before they counted as lost.
    pub acked: u64,
    /// Packets that the sender declared lost.
    pub lost: u64,
    /// Packets that were declared lost and arrived all the same: sent twice for nothing.
    pub spurious: u64,
    /// Packets that the queue dropped.
    pub dropped: u64,
    /// Packets that the wire lost.
    pub lost_on_wire: u64,
    /// Sum of the round-trip times of acknowledged packets, in seconds.
    pub rtt_seconds: f64,
}

impl FlowTotals {
    /// Mean round-trip time in seconds; none without an acknowledgement.
    pub fn mean_rtt(&self) -> Option<f64> {
        (self.acked > 0).then(|| self.rtt_seconds / self.acked as f64)
    }

    /// Packets lost, as a part of those with a known fate.
    pub fn loss_ratio(&self) -> f64 {
        self.lost as f64 / (self.acked + self.lost).max(1) as f64
    }
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    at: SimTime,
    delivered: u64,
    delivered_at: SimTime,
    is_open: bool,
}

/// One flow.
pub(crate) struct Flow {
    sender: Sender,
    /// Packets from `first` on; those without a fate are open.
    packets: VecDeque<Sent>,
    first: u64,
    in_flight: u64,
    /// Acknowledgements on their way, in order.
    acks: VecDeque<(SimTime, u64)>,
    smoothed_rtt: Option<SimDuration>,
    rtt_variation: SimDuration,
    delivered_at: SimTime,
    episode_ends: u64,
    timeouts: u32,
    last_progress: SimTime,
    /// When the pacer allows the next packet.
    next_send: SimTime,
    totals: FlowTotals,
    interval: Interval,
}

impl Flow {
    pub(crate) fn new(sender: Sender, start: SimTime) -> Self {
        Self {
            sender,
            packets: VecDeque::new(),
            first: 0,
            in_flight: 0,
            acks: VecDeque::new(),
            smoothed_rtt: None,
            rtt_variation: SimDuration::ZERO,
            delivered_at: start,
            episode_ends: 0,
            timeouts: 0,
            last_progress: start,
            next_send: start,
            totals: FlowTotals::default(),
            interval: Interval::new(start),
        }
    }

    pub(crate) fn totals(&self) -> FlowTotals {
        self.totals
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(crate) fn interval(&mut self) -> &mut Interval {
        &mut self.interval
    }

    /// The rate that decisions set; none under a congestion controller.
    pub(crate) fn rate(&self) -> Option<BitsPerSecond> {
        match self.sender {
            Sender::Rate(rate) => Some(rate),
            Sender::Controlled(_) => None,
        }
    }

    /// Whether the sender has a rate that can be set. A packet that waits for the pacer is sent as soon as the new
    /// rate allows.
    pub(crate) fn set_rate(&mut self, new: BitsPerSecond, now: SimTime) -> bool {
        let Sender::Rate(rate) = &mut self.sender else { return false };
        let old = std::mem::replace(rate, new);
        let waits = self.next_send.saturating_since(now).nanos() as f64;
        let scaled = waits * old.0 as f64 / new.0.max(1) as f64;
        self.next_send = now + SimDuration::from_nanos(scaled as u64);
        true
    }

    /// When the next packet may be sent; none while the window is full.
    pub(crate) fn next_send(&self) -> Option<SimTime> {
        let is_open = match &self.sender {
            Sender::Rate(rate) => rate.0 > 0,
            Sender::Controlled(controller) => (self.in_flight as f64) < controller.window().floor(),
        };
        is_open.then_some(self.next_send)
    }

    /// When the next acknowledgement arrives.
    pub(crate) fn next_ack(&self) -> Option<SimTime> {
        self.acks.front().map(|(at, _)| *at)
    }

    /// When everything in flight counts as lost; none with nothing in flight.
    pub(crate) fn timeout(&self) -> Option<SimTime> {
        if self.in_flight == 0 {
            return None;
        }
        let rtt = self.smoothed_rtt.unwrap_or(INITIAL_RTT);
        let margin = if self.smoothed_rtt.is_some() {
            (self.rtt_variation * 4).max(GRANULARITY)
        } else {
            rtt * 2
        };
        // A sender at a low rate has nothing to acknowledge for a while.
        let last_sent = self.packets.back().map_or(self.last_progress, |packet| packet.at);
        let wait = ((rtt + margin) * (1 << self.timeouts.min(20))).min(MAX_TIMEOUT);
        Some(self.last_progress.max(last_sent) + wait)
    }

    fn gap(&self) -> SimDuration {
        let per_second = match &self.sender {
            Sender::Rate(rate) => rate.0 as f64 / PACKET_BITS as f64,
            Sender::Controlled(controller) => match (controller.pacing_rate(), self.smoothed_rtt) {
                (Some(rate), _) => rate,
                (None, Some(rtt)) => 1.25 * controller.window() / rtt.seconds().max(1e-9),
                (None, None) => f64::INFINITY,
            },
        };
        SimDuration::from_nanos((1e9 / per_second) as u64)
    }

    /// Notes a packet that is sent now, and returns its number.
    pub(crate) fn send(&mut self, now: SimTime) -> u64 {
        if self.in_flight == 0 {
            // A rate is measured from when something was in flight.
            self.delivered_at = now;
        }
        let number = self.first + self.packets.len() as u64;
        self.packets.push_back(Sent {
            at: now,
            delivered: self.totals.acked,
            delivered_at: self.delivered_at,
            is_open: true,
        });
        self.in_flight += 1;
        self.totals.sent += 1;
        self.interval.sent += 1;
        self.next_send = now + self.gap();
        number
    }

    /// The fate of the packet that was sent last.
    pub(crate) fn note_dropped(&mut self) {
        self.totals.dropped += 1;
    }

    pub(crate) fn note_lost_on_wire(&mut self) {
        self.totals.lost_on_wire += 1;
    }

    pub(crate) fn note_arrival(&mut self, acknowledged: SimTime, number: u64) {
        self.acks.push_back((acknowledged, number));
    }

    /// Takes the next acknowledgement.
    pub(crate) fn take_ack(&mut self, now: SimTime) {
        let Some((_, number)) = self.acks.pop_front() else { return };
        let place = number.checked_sub(self.first).map(|place| place as usize);
        let Some(packet) = place.and_then(|place| self.packets.get_mut(place)) else {
            self.totals.spurious += 1;
            return;
        };
        if !std::mem::replace(&mut packet.is_open, false) {
            self.totals.spurious += 1;
            return;
        }
        let packet = *packet;
        self.in_flight -= 1;
        self.delivered_at = now;
        self.timeouts = 0;
        self.last_progress = now;
        let rtt = now.saturating_since(packet.at);
        self.note_rtt(rtt, now);
        if let Sender::Controlled(controller) = &mut self.sender {
            let elapsed = now.saturating_since(packet.delivered_at).max(rtt);
            controller.on_ack(&Ack {
                now,
                rtt,
                smoothed_rtt: self.smoothed_rtt.unwrap_or(rtt),
                delivery_rate: (self.totals.acked - packet.delivered) as f64
                    / elapsed.seconds().max(1e-9),
                delivered: self.totals.acked,
                delivered_when_sent: packet.delivered,
                in_flight: self.in_flight,
            });
        }
        // Packets arrive in order, so what is open before this one is missing.
        self.declare_lost(number.saturating_sub(PACKET_THRESHOLD - 1), now);
        self.forget_settled();
    }

    fn note_rtt(&mut self, rtt: SimDuration, now: SimTime) {
        self.totals.acked += 1;
        self.totals.rtt_seconds += rtt.seconds();
        self.interval.acknowledge(rtt, now);
        let nanos = rtt.nanos();
        let Some(smoothed) = self.smoothed_rtt else {
            self.smoothed_rtt = Some(rtt);
            self.rtt_variation = SimDuration::from_nanos(nanos / 2);
            return;
        };
        let apart = smoothed.nanos().abs_diff(nanos);
        let variation = (3 * self.rtt_variation.nanos() + apart) / 4;
        self.rtt_variation = SimDuration::from_nanos(variation);
        self.smoothed_rtt = Some(SimDuration::from_nanos((7 * smoothed.nanos() + nanos) / 8));
    }

    /// Declares the open packets below a number lost.
    fn declare_lost(&mut self, below: u64, now: SimTime) {
        let count = below.saturating_sub(self.first) as usize;
        let (mut packets, mut is_new_episode) = (0, false);
        for (place, packet) in self.packets.iter_mut().take(count).enumerate() {
            if std::mem::replace(&mut packet.is_open, false) {
                packets += 1;
                is_new_episode |= self.first + place as u64 >= self.episode_ends;
            }
        }
        if packets == 0 {
            return;
        }
        self.in_flight -= packets;
        self.totals.lost += packets;
        self.interval.lost += packets;
        if is_new_episode {
            self.episode_ends = self.first + self.packets.len() as u64;
        }
        if let Sender::Controlled(controller) = &mut self.sender {
            let in_flight = self.in_flight;
            controller.on_loss(&Loss { now, packets, in_flight, is_new_episode });
        }
    }

    /// Everything in flight counts as lost.
    pub(crate) fn time_out(&mut self, now: SimTime) {
        self.timeouts += 1;
        self.last_progress = now;
        self.declare_lost(self.first + self.packets.len() as u64, now);
        if let Sender::Controlled(controller) = &mut self.sender {
            controller.on_timeout(now);
        }
        self.forget_settled();
    }

    fn forget_settled(&mut self) {
        while self.packets.front().is_some_and(|packet| !packet.is_open) {
            self.packets.pop_front();
            self.first += 1;
        }
    }
}
