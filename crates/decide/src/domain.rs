//! What a control domain is: what is observed, what can be set, and what bounds it.
//!
//! [`decide`](crate::decide()) and every [`Guard`](crate::Guard) are written against these traits
//! alone. Scaling pods is the first domain ([`PodScaling`](crate::PodScaling)); a container with
//! five resources, a CPU frequency, a sending rate or a GPU clock is another implementation, not
//! another decision path.

use std::fmt;

use homeostat_core::SimTime;

use crate::{Dimension, GuardReason};

/// One kind of controlled target.
pub trait Domain: fmt::Debug + Clone + Copy + PartialEq + Send + Sync + 'static {
    /// One window of telemetry of one target.
    type Observation: Observe<Setting = Self::Setting>;
    /// What a target is given.
    type Setting: Setting;
    /// The settings that are allowed at all.
    type Bounds: SettingBounds<Setting = Self::Setting> + fmt::Debug + Clone + PartialEq + Send;
    /// What a policy asks for, before anything is checked.
    type Proposal: Propose<Setting = Self::Setting, Reason = Self::Reason>;
    /// Why: the policies' own reasons, and those of the guards.
    type Reason: From<GuardReason> + fmt::Debug + fmt::Display + Clone + PartialEq + Send;
}

/// What a target is given: a number in each dimension, as integers in the dimension's base unit.
pub trait Setting: fmt::Debug + fmt::Display + Clone + Copy + PartialEq + Send + 'static {
    /// The dimensions. Guards treat them in this order.
    const DIMENSIONS: &'static [Dimension];

    /// The amount in the dimension with this index.
    fn amount(&self, dimension: usize) -> u64;

    /// The same setting with another amount in one dimension; an amount that the unit cannot hold
    /// becomes the largest it can.
    fn with_amount(self, dimension: usize, amount: u64) -> Self;

    /// Whether zero means "not set" in this dimension: a target that has nothing there, and for
    /// which the policy asks for nothing, is then left alone instead of being raised to the lower
    /// bound.
    fn may_be_unset(_dimension: usize) -> bool {
        false
    }

    /// Whether amounts in this dimension are counted, and so exact. Others are measured, and a
    /// difference of a hundredth is none.
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

/// The settings that are allowed.
pub trait SettingBounds {
    /// What is bounded.
    type Setting;

    /// The nearest setting inside the bounds.
    fn clamp(&self, setting: &Self::Setting) -> Self::Setting;
}

/// What guards need to know of an observation.
pub trait Observe {
    /// What the target is given.
    type Setting;

    /// When the decision is made.
    fn now(&self) -> SimTime;

    /// What the target is given now.
    fn setting(&self) -> Self::Setting;

    /// What the target really has, where a change is still being carried out; by default what it
    /// is given.
    fn measured(&self) -> Self::Setting {
        self.setting()
    }

    /// Whether the target meets its SLO.
    fn slo_status(&self) -> SloStatus;

    /// Whether the figures that the policy needs can be trusted.
    fn metrics_status(&self) -> MetricsStatus {
        MetricsStatus::Complete
    }
}

/// What a policy asks for, before anything is checked.
pub trait Propose: Sized {
    /// What a target is given.
    type Setting;
    /// Why.
    type Reason;

    /// Asks for what there is, without a reason yet.
    fn keep(setting: &Self::Setting) -> Self;

    /// What is asked for in units, or the number that cannot be one.
    fn setting(&self) -> Result<Self::Setting, GuardReason>;

    /// The policy's reasons.
    fn into_reasons(self) -> Vec<Self::Reason>;
}

/// Whether a target meets its SLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SloStatus {
    /// It does.
    Met,
    /// It does not, and the target's setting may be the reason.
    Violated,
    /// It cannot be told: no SLO, no requests, or no figure.
    Unknown,
}

/// Whether the figures that a policy needs are there and recent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsStatus {
    /// All of them.
    Complete,
    /// Utilisation is known; the SLO's figure, or that of a query, is not.
    UtilizationOnly,
    /// Utilisation is not known.
    Missing,
}
