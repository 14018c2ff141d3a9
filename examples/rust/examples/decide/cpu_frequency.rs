//! A control domain: the clock frequency of a CPU, set by its utilisation.

use std::fmt;

use homeostat_core::{Bounds, SimTime};
use homeostat_decide::{
    Dimension, Domain, GuardReason, Observe, Propose, Setting, SettingBounds, SloStatus,
};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CpuFrequency;

impl Domain for CpuFrequency {
    type Observation = Sample;
    type Setting = Megahertz;
    type Bounds = FrequencyBounds;
    type Proposal = Proposal;
    type Reason = Reason;
}

pub(crate) struct Sample {
    pub(crate) now: SimTime,
    pub(crate) frequency: Megahertz,
    pub(crate) utilisation: f64,
    pub(crate) slo: SloStatus,
}

impl Observe for Sample {
    type Setting = Megahertz;
    fn now(&self) -> SimTime {
        self.now
    }
    fn setting(&self) -> Megahertz {
        self.frequency
    }
    fn slo_status(&self) -> SloStatus {
        self.slo
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Megahertz(pub(crate) u64);

impl Setting for Megahertz {
    const DIMENSIONS: &'static [Dimension] = &[FREQUENCY];
    fn amount(&self, _dimension: usize) -> u64 {
        self.0
    }
    fn with_amount(self, _dimension: usize, amount: u64) -> Self {
        Self(amount)
    }
}

impl fmt::Display for Megahertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MHz", self.0)
    }
}

const FREQUENCY: Dimension = Dimension {
    name: "frequency",
    quantity: |mhz| format!("{mhz} MHz"),
    phrase: |mhz| format!("a frequency of {mhz} MHz"),
};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FrequencyBounds(pub(crate) Bounds<u64>);

impl SettingBounds for FrequencyBounds {
    type Setting = Megahertz;
    fn clamp(&self, setting: &Megahertz) -> Megahertz {
        Megahertz(self.0.clamp(setting.0))
    }
}

/// A frequency as a plain number, so that `decide` can tell a broken policy from a working one.
pub(crate) struct Proposal(pub(crate) f64, pub(crate) Vec<Reason>);

impl Propose for Proposal {
    type Setting = Megahertz;
    type Reason = Reason;
    fn keep(setting: &Megahertz) -> Self {
        Self(setting.0 as f64, Vec::new())
    }
    fn setting(&self) -> Result<Megahertz, GuardReason> {
        match self.0 {
            mhz if mhz.is_finite() && mhz >= 0.0 => Ok(Megahertz(mhz.round() as u64)),
            value => Err(GuardReason::Refused { dimension: FREQUENCY, value }),
        }
    }
    fn into_reasons(self) -> Vec<Reason> {
        self.1
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reason {
    Utilisation(f64),
    Guard(GuardReason),
}

impl From<GuardReason> for Reason {
    fn from(reason: GuardReason) -> Self {
        Self::Guard(reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utilisation(busy) => write!(f, "the CPU is {:.0} % busy", busy * 100.0),
            Self::Guard(reason) => reason.fmt(f),
        }
    }
}
