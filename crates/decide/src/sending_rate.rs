//! Rates at which a sender puts data on a network path.

use std::fmt;

use homeostat_core::{Bounds, SimDuration, SimTime};

use crate::{Dimension, Domain, GuardReason, Observe, Propose, Setting, SettingBounds, SloStatus};

/// The domain of congestion controllers that set a rate once per monitor interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendingRate;

impl Domain for SendingRate {
    type Observation = PathObservation;
    type Setting = BitsPerSecond;
    type Bounds = Bounds<BitsPerSecond>;
    type Proposal = RateProposal;
    type Reason = RateReason;
}

/// A rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BitsPerSecond(pub u64);

impl BitsPerSecond {
    /// Megabits per second, of a million bits.
    pub fn megabits(self) -> f64 {
        self.0 as f64 * 1e-6
    }
}

impl fmt::Display for BitsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Mbit/s", self.megabits())
    }
}

impl Dimension {
    /// Sending rate, in bits per second.
    pub const SENDING_RATE: Self = Self {
        name: "sending rate",
        quantity: |rate| BitsPerSecond(rate).to_string(),
        phrase: |rate| format!("a sending rate of {}", BitsPerSecond(rate)),
    };
}

impl Setting for BitsPerSecond {
    const DIMENSIONS: &'static [Dimension] = &[Dimension::SENDING_RATE];

    fn amount(&self, _dimension: usize) -> u64 {
        self.0
    }

    fn with_amount(self, _dimension: usize, amount: u64) -> Self {
        Self(amount)
    }
}

impl SettingBounds for Bounds<BitsPerSecond> {
    type Setting = BitsPerSecond;

    fn clamp(&self, rate: &BitsPerSecond) -> BitsPerSecond {
        Bounds::clamp(self, *rate)
    }
}

/// What a sender knows about its path after one monitor interval.
#[derive(Debug, Clone, PartialEq)]
pub struct PathObservation {
    /// The end of the interval.
    pub now: SimTime,
    /// The rate, as last applied.
    pub rate: BitsPerSecond,
    /// Length of the interval.
    pub interval: SimDuration,
    /// Packets sent in the interval.
    pub sent: u64,
    /// Packets whose acknowledgement arrived in the interval.
    pub acked: u64,
    /// Packets that were declared lost in the interval.
    pub lost: u64,
    /// Payload acknowledged, bits per second.
    pub throughput: BitsPerSecond,
    /// Mean round-trip time of the packets acknowledged in the interval; none without any.
    pub rtt: Option<SimDuration>,
    /// Least mean round-trip time of an interval of the connection; none before the first.
    pub min_rtt: Option<SimDuration>,
    /// Change of the round-trip time per second of the interval, by least squares over its packets.
    pub rtt_gradient: f64,
    /// Round-trip time that the sender's SLO allows; none without an SLO.
    pub max_rtt: Option<SimDuration>,
}

impl PathObservation {
    /// Mean round-trip time over the least of the connection; 1 before the first packet.
    pub fn latency_ratio(&self) -> f64 {
        match (self.rtt, self.min_rtt) {
            (Some(rtt), Some(least)) if least.nanos() > 0 => rtt.seconds() / least.seconds(),
            _ => 1.0,
        }
    }

    /// Packets sent over packets acknowledged; with none acknowledged, over one.
    pub fn sending_ratio(&self) -> f64 {
        self.sent as f64 / self.acked.max(1) as f64
    }

    /// Packets lost, as a part of those with a known fate.
    pub fn loss_ratio(&self) -> f64 {
        self.lost as f64 / (self.acked + self.lost).max(1) as f64
    }
}

impl Observe for PathObservation {
    type Setting = BitsPerSecond;

    fn now(&self) -> SimTime {
        self.now
    }

    fn setting(&self) -> BitsPerSecond {
        self.rate
    }

    fn slo_status(&self) -> SloStatus {
        match (self.rtt, self.max_rtt) {
            (Some(rtt), Some(most)) if rtt > most => SloStatus::Violated,
            (Some(_), Some(_)) => SloStatus::Met,
            _ => SloStatus::Unknown,
        }
    }
}

/// The proposal of a congestion controller: a plain number, which [`decide`](crate::decide())
/// checks.
#[derive(Debug, Clone, PartialEq)]
pub struct RateProposal {
    /// Bits per second, rounded to the nearest.
    pub bits_per_second: f64,
    /// The policy's reasons.
    pub reasons: Vec<RateReason>,
}

impl RateProposal {
    /// The step of Aurora: a positive `delta` multiplies the rate by 1 + delta, a negative one divides
    /// it by 1 - delta, so that opposite steps cancel out.
    pub fn step(rate: BitsPerSecond, delta: f64) -> Self {
        let rate = rate.0 as f64;
        let bits_per_second =
            if delta >= 0.0 { rate * (1.0 + delta) } else { rate / (1.0 - delta) };
        Self { bits_per_second, reasons: vec![RateReason::Step { delta }] }
    }
}

impl Propose for RateProposal {
    type Setting = BitsPerSecond;
    type Reason = RateReason;

    fn keep(rate: &BitsPerSecond) -> Self {
        Self { bits_per_second: rate.0 as f64, reasons: Vec::new() }
    }

    fn setting(&self) -> Result<BitsPerSecond, GuardReason> {
        let value = self.bits_per_second;
        if !value.is_finite() || value < 0.0 {
            return Err(GuardReason::Refused { dimension: Dimension::SENDING_RATE, value });
        }
        Ok(BitsPerSecond(value.round() as u64))
    }

    fn into_reasons(self) -> Vec<RateReason> {
        self.reasons
    }
}

/// Why a rate was proposed or limited.
#[derive(Debug, Clone, PartialEq)]
pub enum RateReason {
    /// A policy chose to change the rate by this part.
    Step {
        /// Above zero to send faster.
        delta: f64,
    },
    /// The policy always proposes this rate.
    Constant,
    /// Something that applies in every domain.
    Guard(GuardReason),
}

impl From<GuardReason> for RateReason {
    fn from(reason: GuardReason) -> Self {
        Self::Guard(reason)
    }
}

impl fmt::Display for RateReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step { delta } => write!(f, "step of {:+.1} %", delta * 100.0),
            Self::Constant => write!(f, "constant rate"),
            Self::Guard(reason) => reason.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation() -> PathObservation {
        PathObservation {
            now: SimTime::ZERO,
            rate: BitsPerSecond(1_000_000),
            interval: SimDuration::from_millis(100),
            sent: 10,
            acked: 0,
            lost: 0,
            throughput: BitsPerSecond(0),
            rtt: None,
            min_rtt: None,
            rtt_gradient: 0.0,
            max_rtt: None,
        }
    }

    #[test]
    fn opposite_steps_cancel_out() {
        let rate = BitsPerSecond(800_000);
        let up = RateProposal::step(rate, 0.25).setting().unwrap();
        assert_eq!(up, BitsPerSecond(1_000_000));
        assert_eq!(RateProposal::step(up, -0.25).setting().unwrap(), rate);
    }

    #[test]
    fn a_rate_that_is_no_number_is_refused() {
        for bits_per_second in [f64::NAN, f64::INFINITY, -1.0] {
            let proposal = RateProposal { bits_per_second, reasons: Vec::new() };
            assert!(proposal.setting().is_err(), "{bits_per_second}");
        }
    }

    #[test]
    fn ratios_are_defined_before_the_first_acknowledgement() {
        let obs = observation();
        assert_eq!((obs.latency_ratio(), obs.sending_ratio(), obs.loss_ratio()), (1.0, 10.0, 0.0));
    }

    #[test]
    fn the_slo_is_a_bound_on_the_round_trip_time() {
        let mut obs = observation();
        assert_eq!(obs.slo_status(), SloStatus::Unknown);
        obs.rtt = Some(SimDuration::from_millis(50));
        obs.max_rtt = Some(SimDuration::from_millis(50));
        assert_eq!(obs.slo_status(), SloStatus::Met);
        obs.rtt = Some(SimDuration::from_millis(51));
        assert_eq!(obs.slo_status(), SloStatus::Violated);
    }
}
