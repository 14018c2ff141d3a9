//! Control domains: what is observed, what can be set, and what bounds it.
//!
//! [`decide`](crate::decide()) and every [`Guard`](crate::Guard) are written against these traits
//! alone. Scaling pods is the first domain ([`PodScaling`](crate::PodScaling)); a container with
//! five resources, a CPU frequency, a sending rate or a GPU clock is another implementation, not
//! another decision path.

use std::fmt;

use homeostat_core::SimTime;

use crate::{Dimension, GuardReason};

/// One kind of controlled target. `examples/rust/examples/decide` implements the clock frequency
/// of a CPU.
pub trait Domain: fmt::Debug + Clone + Copy + PartialEq + Send + Sync + 'static {
    /// One window of telemetry of one target.
    type Observation: Observe<Setting = Self::Setting>;
    /// What is controlled.
    type Setting: Setting;
    /// The allowed settings.
    type Bounds: SettingBounds<Setting = Self::Setting> + fmt::Debug + Clone + PartialEq + Send;
    /// The output of a policy, before any check.
    type Proposal: Propose<Setting = Self::Setting, Reason = Self::Reason>;
    /// Reasons of policies and of guards.
    type Reason: From<GuardReason> + fmt::Debug + fmt::Display + Clone + PartialEq + Send;
}

/// What is controlled: an integer in each dimension, in the dimension's base unit.
pub trait Setting: fmt::Debug + fmt::Display + Clone + Copy + PartialEq + Send + 'static {
    /// The dimensions, in the order in which guards process them.
    const DIMENSIONS: &'static [Dimension];

    /// The amount in the dimension with this index.
    fn amount(&self, dimension: usize) -> u64;

    /// The same setting with another amount in one dimension; an amount that is too large for the
    /// unit saturates.
    fn with_amount(self, dimension: usize, amount: u64) -> Self;

    /// Whether zero means "not set" in this dimension. If the target has zero and the policy
    /// proposes zero, the lower bound does not apply.
    fn may_be_unset(_dimension: usize) -> bool {
        false
    }

    /// Whether amounts in this dimension are exact counts. Other amounts are measured, and
    /// differences of up to 1 % are ignored.
    fn is_counted(_dimension: usize) -> bool {
        false
    }

    /// Combines two settings dimension by dimension.
    fn combine(self, other: Self, choose: impl Fn(u64, u64) -> u64) -> Self {
        (0..Self::DIMENSIONS.len()).fold(self, |setting, dimension| {
            let amount = choose(self.amount(dimension), other.amount(dimension));
            setting.with_amount(dimension, amount)
        })
    }

    /// The larger amount in every dimension.
    fn at_least(self, other: Self) -> Self {
        self.combine(other, u64::max)
    }
}

/// The allowed settings.
pub trait SettingBounds {
    /// The bounded setting.
    type Setting;

    /// The nearest setting inside the bounds.
    fn clamp(&self, setting: &Self::Setting) -> Self::Setting;
}

/// The part of an observation that guards read.
pub trait Observe {
    /// The controlled setting.
    type Setting;

    /// The time of the decision.
    fn now(&self) -> SimTime;

    /// The target's present setting, as last applied.
    fn setting(&self) -> Self::Setting;

    /// The measured setting, which differs while a change is in progress; by default the applied
    /// one.
    fn measured(&self) -> Self::Setting {
        self.setting()
    }

    /// Whether the target meets its SLO.
    fn slo_status(&self) -> SloStatus;

    /// Which of the metrics that the policy needs are available and recent.
    fn metrics_status(&self) -> MetricsStatus {
        MetricsStatus::Complete
    }
}

/// The output of a policy, before any check.
pub trait Propose: Sized {
    /// The controlled setting.
    type Setting;
    /// Reasons for the proposal.
    type Reason;

    /// Proposes the present setting, without a reason.
    fn keep(setting: &Self::Setting) -> Self;

    /// The proposed setting in units, or an error with the number that is negative or not finite.
    fn setting(&self) -> Result<Self::Setting, GuardReason>;

    /// The policy's reasons.
    fn into_reasons(self) -> Vec<Self::Reason>;
}

/// Whether a target meets its SLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SloStatus {
    /// The SLO is met.
    Met,
    /// The SLO is violated, and the target's setting may be the cause.
    Violated,
    /// No SLO, no requests, or no metric.
    Unknown,
}

/// Which of the metrics that a policy needs are available and recent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsStatus {
    /// All of them.
    Complete,
    /// Utilisation is known; latency or the result of a query is not.
    UtilizationOnly,
    /// Utilisation is not known.
    Missing,
}
