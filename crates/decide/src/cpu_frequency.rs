//! Frequencies of CPU cores: those that one virtual machine or container runs on.

use std::fmt;

use homeostat_core::{Bounds, SimTime};

use crate::{Dimension, Domain, GuardReason, Observe, Propose, Setting, SettingBounds, SloStatus};

/// The domain of controllers that overclock cores while it pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuFrequency;

impl Domain for CpuFrequency {
    type Observation = CpuObservation;
    type Setting = Kilohertz;
    type Bounds = FrequencyBounds;
    type Proposal = FrequencyProposal;
    type Reason = FrequencyReason;
}

/// A core frequency, in the unit of Linux's cpufreq.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kilohertz(pub u32);

impl Kilohertz {
    /// The frequency in GHz.
    pub fn gigahertz(self) -> f64 {
        f64::from(self.0) * 1e-6
    }
}

impl fmt::Display for Kilohertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} GHz", self.gigahertz())
    }
}

impl Dimension {
    /// Frequency of cores, in kHz.
    pub const CORE_FREQUENCY: Self = Self {
        name: "core frequency",
        quantity: |khz| format!("{:.2} GHz", khz as f64 * 1e-6),
        phrase: |khz| format!("a core frequency of {:.2} GHz", khz as f64 * 1e-6),
    };
}

impl Setting for Kilohertz {
    const DIMENSIONS: &'static [Dimension] = &[Dimension::CORE_FREQUENCY];

    fn amount(&self, _dimension: usize) -> u64 {
        self.0.into()
    }

    fn with_amount(self, _dimension: usize, amount: u64) -> Self {
        Self(u32::try_from(amount).unwrap_or(u32::MAX))
    }
}

/// The frequencies that a processor allows: from the lowest to the highest, in steps from the lowest up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrequencyBounds {
    /// Lowest and highest frequency.
    pub range: Bounds<Kilohertz>,
    /// Distance between two frequencies, kHz; zero for any frequency.
    pub step: u32,
}

impl SettingBounds for FrequencyBounds {
    type Setting = Kilohertz;

    /// The nearest allowed frequency; of two equally near ones the higher.
    fn clamp(&self, frequency: &Kilohertz) -> Kilohertz {
        let inside = self.range.clamp(*frequency);
        let above = inside.0 - self.range.low().0;
        let Some(beyond) = above.checked_rem(self.step) else { return inside };
        let lower = inside.0 - beyond;
        // The highest frequency may be less than a step above the one below it.
        let upper = lower.saturating_add(self.step).min(self.range.high().0);
        Kilohertz(if beyond > 0 && beyond >= upper - inside.0 { upper } else { lower })
    }
}

/// What an agent on the node sees of one virtual machine or container in one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuObservation {
    /// The time of the decision.
    pub now: SimTime,
    /// The frequency, as last applied.
    pub frequency: Kilohertz,
    /// Instructions per second, of all its cores together.
    pub instructions_per_s: f64,
    /// Part of the interval in which its cores were busy, 0 to 1.
    pub cpu_usage: f64,
    /// The SLO over the measured latency, at most 1; none without requests or without an SLO.
    pub latency_preservation: Option<f64>,
    /// Requests answered over requests that arrived, at most 1; none without requests.
    pub throughput_preservation: Option<f64>,
    /// Mean power of its cores, W; none if it is unknown.
    pub power_w: Option<f64>,
}

impl CpuObservation {
    /// The preservation ratio of the SLO: that of latency, else that of throughput, else 1.
    pub fn slo_preservation(&self) -> f64 {
        self.latency_preservation.or(self.throughput_preservation).unwrap_or(1.0)
    }
}

impl Observe for CpuObservation {
    type Setting = Kilohertz;

    fn now(&self) -> SimTime {
        self.now
    }

    fn setting(&self) -> Kilohertz {
        self.frequency
    }

    fn slo_status(&self) -> SloStatus {
        match self.latency_preservation {
            None => SloStatus::Unknown,
            Some(ratio) if ratio < 1.0 => SloStatus::Violated,
            Some(_) => SloStatus::Met,
        }
    }
}

/// A proposed frequency: a plain number, which [`decide`](crate::decide()) checks.
#[derive(Debug, Clone, PartialEq)]
pub struct FrequencyProposal {
    /// kHz, rounded to the nearest.
    pub khz: f64,
    /// The policy's reasons.
    pub reasons: Vec<FrequencyReason>,
}

impl FrequencyProposal {
    /// One of `levels` frequencies at equal distances, from the lowest (0) to the highest.
    pub fn level(bounds: &FrequencyBounds, level: usize, levels: usize) -> Self {
        let (low, high) = (f64::from(bounds.range.low().0), f64::from(bounds.range.high().0));
        let part = level as f64 / (levels.max(2) - 1) as f64;
        Self { khz: low + part * (high - low), reasons: vec![FrequencyReason::Level { part }] }
    }
}

impl Propose for FrequencyProposal {
    type Setting = Kilohertz;
    type Reason = FrequencyReason;

    fn keep(frequency: &Kilohertz) -> Self {
        Self { khz: frequency.0.into(), reasons: Vec::new() }
    }

    fn setting(&self) -> Result<Kilohertz, GuardReason> {
        if !self.khz.is_finite() || self.khz < 0.0 {
            let (dimension, value) = (Dimension::CORE_FREQUENCY, self.khz);
            return Err(GuardReason::Refused { dimension, value });
        }
        Ok(Kilohertz(self.khz.round() as u32))
    }

    fn into_reasons(self) -> Vec<FrequencyReason> {
        self.reasons
    }
}

/// Why a frequency was proposed or limited.
#[derive(Debug, Clone, PartialEq)]
pub enum FrequencyReason {
    /// A policy chose this part of the range above the lowest frequency.
    Level {
        /// Zero for the lowest, one for the highest frequency.
        part: f64,
    },
    /// The policy always proposes this frequency.
    Constant,
    /// Something that applies in every domain.
    Guard(GuardReason),
}

impl From<GuardReason> for FrequencyReason {
    fn from(reason: GuardReason) -> Self {
        Self::Guard(reason)
    }
}

impl fmt::Display for FrequencyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level { part } => write!(f, "{:.0} % of the range", part * 100.0),
            Self::Constant => write!(f, "constant frequency"),
            Self::Guard(reason) => reason.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(low: u32, high: u32) -> FrequencyBounds {
        let range = Bounds::try_new(Kilohertz(low), Kilohertz(high)).unwrap();
        FrequencyBounds { range, step: 100_000 }
    }

    #[test]
    fn a_frequency_becomes_the_nearest_allowed_one() {
        let bounds = bounds(2_000_000, 3_050_000);
        let check = |khz: u32, expect: u32| {
            assert_eq!(bounds.clamp(&Kilohertz(khz)), Kilohertz(expect), "{khz}");
        };
        check(2_149_999, 2_100_000);
        check(2_150_000, 2_200_000);
        check(1_000_000, 2_000_000);
        check(9_000_000, 3_050_000);
        check(3_049_000, 3_050_000);
        let any = FrequencyBounds { step: 0, ..bounds };
        assert_eq!(any.clamp(&Kilohertz(2_123_456)), Kilohertz(2_123_456));
    }

    #[test]
    fn levels_reach_from_the_lowest_to_the_highest_frequency() {
        let bounds = bounds(2_000_000, 3_000_000);
        let level = |level| FrequencyProposal::level(&bounds, level, 5).setting().unwrap();
        let found = [0, 1, 2, 3, 4].map(|number| level(number).0 / 1000);
        assert_eq!(found, [2000, 2250, 2500, 2750, 3000]);
    }

    #[test]
    fn a_frequency_that_is_no_number_is_refused() {
        for khz in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(FrequencyProposal { khz, reasons: Vec::new() }.setting().is_err(), "{khz}");
        }
    }

    #[test]
    fn the_slo_is_violated_below_a_ratio_of_one() {
        let obs = |latency_preservation| CpuObservation {
            now: SimTime::ZERO,
            frequency: Kilohertz(2_000_000),
            instructions_per_s: 1e9,
            cpu_usage: 0.5,
            latency_preservation,
            throughput_preservation: None,
            power_w: None,
        };
        assert_eq!(obs(Some(0.99)).slo_status(), SloStatus::Violated);
        assert_eq!(obs(Some(1.0)).slo_status(), SloStatus::Met);
        assert_eq!(obs(None).slo_status(), SloStatus::Unknown);
        assert_eq!(obs(None).slo_preservation(), 1.0);
    }
}
