//! Clocks of GPUs: the SM clock of one device, or of devices that share one.

use std::fmt;

use homeostat_core::{Bounds, SimDuration, SimTime};

use crate::{
    Dimension, Domain, GuardReason, MetricsStatus, Observe, Propose, Setting, SettingBounds,
    SloStatus,
};

/// The domain of governors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuClock;

impl Domain for GpuClock {
    type Observation = GpuObservation;
    type Setting = Megahertz;
    type Bounds = ClockBounds;
    type Proposal = ClockProposal;
    type Reason = ClockReason;
}

/// An SM clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Megahertz(pub u32);

impl fmt::Display for Megahertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MHz", self.0)
    }
}

impl Dimension {
    /// SM clock of a GPU, in MHz.
    pub const SM_CLOCK: Self = Self {
        name: "SM clock",
        quantity: |mhz| format!("{mhz} MHz"),
        phrase: |mhz| format!("an SM clock of {mhz} MHz"),
    };
}

impl Setting for Megahertz {
    const DIMENSIONS: &'static [Dimension] = &[Dimension::SM_CLOCK];

    fn amount(&self, _dimension: usize) -> u64 {
        self.0.into()
    }

    fn with_amount(self, _dimension: usize, amount: u64) -> Self {
        Self(u32::try_from(amount).unwrap_or(u32::MAX))
    }
}

/// The clocks that a device allows: from the lowest to the highest, in steps from the highest down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockBounds {
    /// Lowest and highest clock.
    pub range: Bounds<Megahertz>,
    /// Distance between two clocks, MHz; zero for any clock.
    pub step: u32,
}

impl SettingBounds for ClockBounds {
    type Setting = Megahertz;

    /// The nearest allowed clock that is not lower, so that rounding never costs latency.
    fn clamp(&self, clock: &Megahertz) -> Megahertz {
        let inside = self.range.clamp(*clock);
        let below = self.range.high().0 - inside.0;
        match below.checked_rem(self.step) {
            Some(beyond) => Megahertz(inside.0 + beyond),
            None => inside,
        }
    }
}

/// What a governor sees of one device in one window.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuObservation {
    /// The time of the decision.
    pub now: SimTime,
    /// The clock, as last applied.
    pub clock: Megahertz,
    /// The models with a part on the device.
    pub models: Vec<ModelLatency>,
    /// Part of the window in which the device was busy.
    pub busy: f64,
    /// Mean power, W; none if it is unknown.
    pub power_w: Option<f64>,
    /// Whether latencies are complete and recent.
    pub metrics: MetricsStatus,
}

impl GpuObservation {
    /// An idle device without models.
    pub fn new(now: SimTime, clock: Megahertz) -> Self {
        Self {
            now,
            clock,
            models: Vec::new(),
            busy: 0.0,
            power_w: None,
            metrics: MetricsStatus::Complete,
        }
    }
}

/// Latency of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelLatency {
    /// Name.
    pub model: String,
    /// Threshold of its SLO.
    pub slo: SimDuration,
    /// Latency at the percentile of its SLO; none without requests.
    pub latency: Option<SimDuration>,
    /// Part of its latency that depends on this device.
    pub weight: f64,
}

impl ModelLatency {
    /// What is left of the SLO, as a part of it; negative if it is violated. None without requests.
    pub fn slack(&self) -> Option<f64> {
        let latency = self.latency?.seconds();
        Some((self.slo.seconds() - latency) / self.slo.seconds())
    }
}

impl Observe for GpuObservation {
    type Setting = Megahertz;

    fn now(&self) -> SimTime {
        self.now
    }

    fn setting(&self) -> Megahertz {
        self.clock
    }

    fn slo_status(&self) -> SloStatus {
        let slacks = self.models.iter().filter_map(ModelLatency::slack);
        match slacks.reduce(f64::min) {
            None => SloStatus::Unknown,
            Some(slack) if slack < 0.0 => SloStatus::Violated,
            Some(_) => SloStatus::Met,
        }
    }

    fn metrics_status(&self) -> MetricsStatus {
        self.metrics
    }
}

/// The proposal of a governor: a plain number, which [`decide`](crate::decide()) checks.
#[derive(Debug, Clone, PartialEq)]
pub struct ClockProposal {
    /// MHz, rounded to the nearest.
    pub mhz: f64,
    /// The policy's reasons.
    pub reasons: Vec<ClockReason>,
}

impl Propose for ClockProposal {
    type Setting = Megahertz;
    type Reason = ClockReason;

    fn keep(clock: &Megahertz) -> Self {
        Self { mhz: clock.0.into(), reasons: Vec::new() }
    }

    fn setting(&self) -> Result<Megahertz, GuardReason> {
        if !self.mhz.is_finite() || self.mhz < 0.0 {
            return Err(GuardReason::Refused { dimension: Dimension::SM_CLOCK, value: self.mhz });
        }
        Ok(Megahertz(self.mhz.round() as u32))
    }

    fn into_reasons(self) -> Vec<ClockReason> {
        self.reasons
    }
}

/// Why a clock was proposed or limited.
#[derive(Debug, Clone, PartialEq)]
pub enum ClockReason {
    /// A model has too little left of its SLO.
    LittleSlack {
        /// The model.
        model: String,
        /// What is left, as a part of the SLO.
        slack: f64,
    },
    /// A model has more left of its SLO than a lower clock costs.
    Headroom {
        /// The model.
        model: String,
        /// What is left, as a part of the SLO.
        slack: f64,
        /// What a lower clock is expected to cost, as a part of the SLO.
        cost: f64,
    },
    /// No model has enough left of its SLO for a lower clock, and each has enough for this one.
    Balanced,
    /// No model had requests.
    Idle,
    /// The policy always proposes this clock.
    Constant,
    /// Latencies are unknown, so that only the highest clock is safe.
    LatencyUnknown,
    /// The policy draws at random.
    Random,
    /// Something that applies in every domain.
    Guard(GuardReason),
}

impl ClockReason {
    /// Its kind in a few words without numbers, as metrics count reasons.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::LittleSlack { .. } => "little_slack",
            Self::Headroom { .. } => "headroom",
            Self::Balanced => "balanced",
            Self::Idle => "idle",
            Self::Constant => "constant",
            Self::LatencyUnknown => "latency_unknown",
            Self::Random => "random",
            Self::Guard(reason) => reason.kind(),
        }
    }
}

impl From<GuardReason> for ClockReason {
    fn from(reason: GuardReason) -> Self {
        Self::Guard(reason)
    }
}

impl fmt::Display for ClockReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: &f64| format!("{:.0} %", part * 100.0);
        match self {
            Self::LittleSlack { model, slack } if *slack < 0.0 => {
                write!(f, "{model} is {} beyond its SLO", percent(&-slack))
            }
            Self::LittleSlack { model, slack } => {
                write!(f, "{model} has {} of its SLO left", percent(slack))
            }
            Self::Headroom { model, slack, cost } => write!(
                f,
                "{model} has {} of its SLO left, a step down costs about {}",
                percent(slack),
                percent(cost)
            ),
            Self::Balanced => write!(f, "no room for a lower clock"),
            Self::Idle => write!(f, "no requests"),
            Self::Constant => write!(f, "constant clock"),
            Self::LatencyUnknown => write!(f, "latencies are unknown: the highest clock"),
            Self::Random => write!(f, "random clock"),
            Self::Guard(reason) => reason.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_rounded_up_to_a_step_below_the_highest() {
        let range = Bounds::try_new(Megahertz(200), Megahertz(1380)).unwrap();
        let bounds = ClockBounds { range, step: 15 };
        let check = |mhz, expect| assert_eq!(bounds.clamp(&Megahertz(mhz)), Megahertz(expect));
        check(1380, 1380);
        check(2000, 1380);
        check(1366, 1380);
        check(1365, 1365);
        check(1360, 1365);
        check(100, 210);
        let free = ClockBounds { step: 0, ..bounds };
        assert_eq!(free.clamp(&Megahertz(333)), Megahertz(333));
    }

    #[test]
    fn the_slo_is_violated_if_that_of_any_model_is() {
        let latency = |millis| ModelLatency {
            model: "a".to_owned(),
            slo: SimDuration::from_millis(100),
            latency: Some(SimDuration::from_millis(millis)),
            weight: 1.0,
        };
        let mut obs = GpuObservation::new(SimTime::ZERO, Megahertz(1000));
        assert_eq!(obs.slo_status(), SloStatus::Unknown);
        obs.models = vec![latency(90), latency(50)];
        assert_eq!(obs.slo_status(), SloStatus::Met);
        obs.models.push(latency(101));
        assert_eq!(obs.slo_status(), SloStatus::Violated);
    }
}
