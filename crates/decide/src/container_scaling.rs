//! Scaling of containers in five resources (FIRM, dissertation 3.2.4 and 3.2.5): limits of CPU, memory
//! bandwidth, cache, disk and network of each replica, and the number of replicas.

use std::fmt;

use homeostat_core::{Bytes, SimDuration, SimTime};

use crate::{
    Dimension, Domain, Error, GuardReason, Observe, Propose, Reason, Result, Setting,
    SettingBounds, SloStatus,
};

/// A resource of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContainerResource {
    /// CPU time, in millicores.
    Cpu,
    /// Traffic between last-level cache and memory, in bytes per second.
    MemoryBandwidth,
    /// Capacity of the last-level cache, in bytes.
    Cache,
    /// Traffic of disks, in bytes per second.
    Disk,
    /// Traffic of the network, in bytes per second.
    Network,
}

impl ContainerResource {
    /// All, in the order of a setting.
    pub const ALL: [Self; 5] =
        [Self::Cpu, Self::MemoryBandwidth, Self::Cache, Self::Disk, Self::Network];

    /// Place in [`ContainerResource::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name for people and programs.
    pub fn name(self) -> &'static str {
        ["CPU", "memory bandwidth", "cache", "disk", "network"][self.index()]
    }
}

impl fmt::Display for ContainerResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The domain of containers with five resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerScaling;

impl Domain for ContainerScaling {
    type Observation = ContainerObservation;
    type Setting = ContainerLimits;
    type Bounds = ContainerBounds;
    type Proposal = ContainerProposal;
    type Reason = ContainerReason;
}

/// Replicas of a service and the limits of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerLimits {
    /// Number of replicas.
    pub replicas: u32,
    /// Limits in the order and units of [`ContainerResource`].
    pub limits: [u64; 5],
}

const fn per_second(name: &'static str, quantity: fn(u64) -> String) -> Dimension {
    Dimension { name, quantity, phrase: quantity }
}

impl ContainerLimits {
    /// Index of the number of replicas among the dimensions; the resources follow.
    pub const REPLICAS: usize = 0;
}

impl Setting for ContainerLimits {
    const DIMENSIONS: &'static [Dimension] = &[
        Dimension::REPLICAS,
        Dimension::CPU,
        per_second("memory bandwidth", |rate| format!("{:.1}MB/s of memory", rate as f64 / 1e6)),
        Dimension {
            name: "cache",
            quantity: |bytes| format!("{:.1}Mi", Bytes::new(bytes).mib()),
            phrase: |bytes| format!("{:.1}Mi cache", Bytes::new(bytes).mib()),
        },
        per_second("disk", |rate| format!("{:.1}MB/s of disk", rate as f64 / 1e6)),
        per_second("network", |rate| format!("{:.1}MB/s of network", rate as f64 / 1e6)),
    ];

    fn amount(&self, dimension: usize) -> u64 {
        match dimension.checked_sub(1) {
            None => u64::from(self.replicas),
            Some(resource) => self.limits[resource],
        }
    }

    fn with_amount(mut self, dimension: usize, amount: u64) -> Self {
        match dimension.checked_sub(1) {
            None => self.replicas = u32::try_from(amount).unwrap_or(u32::MAX),
            Some(resource) => self.limits[resource] = amount,
        }
        self
    }

    fn is_counted(dimension: usize) -> bool {
        dimension == Self::REPLICAS
    }
}

impl fmt::Display for ContainerLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, dimension) in Self::DIMENSIONS.iter().enumerate() {
            let separator = ["", " x "].get(index).unwrap_or(&", ");
            write!(f, "{separator}{}", (dimension.phrase)(self.amount(index)))?;
        }
        Ok(())
    }
}

/// The allowed limits and numbers of replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerBounds {
    low: ContainerLimits,
    high: ContainerLimits,
}

impl ContainerBounds {
    /// Bounds from `low` to `high` in every dimension. No limit and no number of replicas is zero.
    pub fn try_new(low: ContainerLimits, high: ContainerLimits) -> Result<Self> {
        for (index, dimension) in ContainerLimits::DIMENSIONS.iter().enumerate() {
            let (from, to) = (low.amount(index), high.amount(index));
            if from == 0 || from > to {
                let need = "bounds above zero, the smallest first";
                return Err(Error::setting(dimension.name, need, format!("{from} to {to}")));
            }
        }
        Ok(Self { low, high })
    }

    /// The smallest setting.
    pub fn low(&self) -> &ContainerLimits {
        &self.low
    }

    /// The largest setting.
    pub fn high(&self) -> &ContainerLimits {
        &self.high
    }
}

impl SettingBounds for ContainerBounds {
    type Setting = ContainerLimits;

    fn clamp(&self, setting: &ContainerLimits) -> ContainerLimits {
        setting.at_least(self.low).combine(self.high, u64::min)
    }
}

/// One window of telemetry of one service (dissertation, Table 3.2).
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerObservation {
    /// When the decision is made.
    pub now: SimTime,
    /// Length of the window.
    pub window: SimDuration,
    /// The setting in force.
    pub setting: ContainerLimits,
    /// SLO latency over measured latency of the requests that need the service, at most one; one
    /// without requests.
    pub slo_maintenance: f64,
    /// Whether these requests meet their SLOs.
    pub slo_status: SloStatus,
    /// Requests to the service per second.
    pub arrivals_per_s: f64,
    /// Rate of arrivals over that of the window before; one where either is zero.
    pub workload_change: f64,
    /// Share of each type among the requests of the application.
    pub request_mix: Vec<f64>,
    /// Use of each resource by all replicas, in the units of limits.
    pub usage: [f64; 5],
}

impl ContainerObservation {
    /// An idle service.
    pub fn new(now: SimTime, window: SimDuration, setting: ContainerLimits) -> Self {
        Self {
            now,
            window,
            setting,
            slo_maintenance: 1.0,
            slo_status: SloStatus::Unknown,
            arrivals_per_s: 0.0,
            workload_change: 1.0,
            request_mix: Vec::new(),
            usage: [0.0; 5],
        }
    }

    /// Use over limit of each resource, over all replicas.
    pub fn utilization(&self) -> [f64; 5] {
        let replicas = f64::from(self.setting.replicas.max(1));
        std::array::from_fn(|index| {
            self.usage[index] / (replicas * self.setting.limits[index].max(1) as f64)
        })
    }

    /// The reward of a step: alpha for the SLO against utilisation, over five resources (3.2.4).
    pub fn reward(&self, alpha: f64) -> f64 {
        let utilization: f64 = self.utilization().iter().map(|use_| use_.min(1.0)).sum();
        alpha * self.slo_maintenance * 5.0 + (1.0 - alpha) * utilization
    }
}

impl Observe for ContainerObservation {
    type Setting = ContainerLimits;

    fn now(&self) -> SimTime {
        self.now
    }

    fn setting(&self) -> ContainerLimits {
        self.setting
    }

    fn slo_status(&self) -> SloStatus {
        self.slo_status
    }
}

/// Wanted replicas and limits, as plain numbers in the units of [`ContainerLimits`].
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerProposal {
    /// Replicas.
    pub replicas: f64,
    /// Limits of each replica.
    pub limits: [f64; 5],
    /// Why.
    pub reasons: Vec<ContainerReason>,
}

impl Propose for ContainerProposal {
    type Setting = ContainerLimits;
    type Reason = ContainerReason;

    fn keep(setting: &ContainerLimits) -> Self {
        Self {
            replicas: f64::from(setting.replicas),
            limits: setting.limits.map(|limit| limit as f64),
            reasons: Vec::new(),
        }
    }

    fn setting(&self) -> Result<ContainerLimits, GuardReason> {
        let wanted = std::iter::once(self.replicas).chain(self.limits);
        let mut setting = ContainerLimits { replicas: 0, limits: [0; 5] };
        for (index, value) in wanted.enumerate() {
            if !value.is_finite() || value < 0.0 {
                let dimension = ContainerLimits::DIMENSIONS[index];
                return Err(GuardReason::Refused { dimension, value });
            }
            // Too large for the unit saturates; bounds clamp it anyway.
            setting = setting.with_amount(index, value.round() as u64);
        }
        Ok(setting)
    }

    fn into_reasons(self) -> Vec<ContainerReason> {
        self.reasons
    }
}

/// Why limits change or stay.
#[derive(Debug, Clone, PartialEq)]
pub enum ContainerReason {
    /// A guard limited the proposal.
    Guard(GuardReason),
    /// A rule for pods decided on replicas and CPU.
    Pods(Box<Reason>),
    /// The policy always keeps the setting.
    Constant,
    /// The limits are drawn at random.
    Random,
    /// The SLO is violated: the limit of a resource grows by a fixed amount.
    Increase(ContainerResource),
    /// The SLO is violated, and no resource is used enough to be the cause.
    NothingScarce,
    /// The SLO has been met for long enough: every limit shrinks to this part.
    Decrease {
        /// The part that is left.
        factor: f64,
    },
    /// The SLO is met, not for long enough to decrease limits.
    NotCalmYet {
        /// Windows in a row in which it was met.
        calm: u32,
        /// Windows that are needed.
        needed: u32,
    },
    /// An agent chose the limits.
    Chosen,
    /// A limit was at its largest and more was wanted.
    ScaleOut(ContainerResource),
    /// A limit was at its smallest and less was wanted of every resource.
    ScaleIn,
}

impl From<GuardReason> for ContainerReason {
    fn from(reason: GuardReason) -> Self {
        Self::Guard(reason)
    }
}

impl fmt::Display for ContainerReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guard(reason) => reason.fmt(f),
            Self::Pods(reason) => reason.fmt(f),
            Self::Constant => f.write_str("constant limits"),
            Self::Random => f.write_str("random limits"),
            Self::Increase(resource) => {
                write!(f, "the SLO is violated: the limit of {resource} grows")
            }
            Self::NothingScarce => {
                f.write_str("the SLO is violated, but no resource is used up to its limit")
            }
            Self::Decrease { factor } => {
                write!(f, "the SLO is met: limits shrink to {:.0} %", factor * 100.0)
            }
            Self::NotCalmYet { calm, needed } => {
                write!(f, "the SLO has been met for {calm} of {needed} windows")
            }
            Self::Chosen => f.write_str("the policy chose the limits"),
            Self::ScaleOut(resource) => {
                write!(f, "one replica more: {resource} is at its largest limit")
            }
            Self::ScaleIn => f.write_str("one replica fewer: all limits are at their smallest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(replicas: u32, limit: u64) -> ContainerLimits {
        ContainerLimits { replicas, limits: [limit; 5] }
    }

    fn observation(setting: ContainerLimits) -> ContainerObservation {
        ContainerObservation {
            slo_maintenance: 0.5,
            slo_status: SloStatus::Violated,
            usage: [1000.0, 200.0, 0.0, 0.0, 400.0],
            ..ContainerObservation::new(SimTime::ZERO, SimDuration::from_secs(1), setting)
        }
    }

    #[test]
    fn reward_and_utilisation_are_those_of_the_text() {
        let seen = observation(limits(2, 1000));
        assert_eq!(seen.utilization(), [0.5, 0.1, 0.0, 0.0, 0.2]);
        assert!((seen.reward(0.5) - (0.5 * 0.5 * 5.0 + 0.5 * 0.8)).abs() < 1e-12);
    }

    #[test]
    fn numbers_that_are_not_limits_change_nothing() {
        let mut wanted = ContainerProposal::keep(&limits(1, 500));
        wanted.limits[3] = f64::NAN;
        assert!(wanted.setting().is_err());
        assert!(ContainerBounds::try_new(limits(1, 0), limits(1, 5)).is_err());
        assert!(ContainerBounds::try_new(limits(2, 5), limits(1, 5)).is_err());
    }
}
