//! Reasons of guards.

use std::fmt;

use homeostat_core::SimDuration;

use super::Pause;
use crate::reason::Short;
use crate::{Amount, Dimension};

/// One reason of a guard, the same in every domain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GuardReason {
    /// The policy gave no reason.
    Unexplained,
    /// A proposed number was negative or not a number.
    Refused {
        /// Of which dimension.
        dimension: Dimension,
        /// The number.
        value: f64,
    },
    /// Metrics are incomplete, and nothing changes for now.
    MetricsStale {
        /// For how long still, unless they come back.
        remaining: SimDuration,
    },
    /// Utilisation is unknown for longer than the hold time.
    MetricsMissing,
    /// Some metrics are missing, so nothing goes down.
    ScaleDownUncertain,
    /// Clamped to the upper bound.
    AtMost(Amount),
    /// Clamped to the lower bound.
    AtLeast(Amount),
    /// A step up was shortened.
    StepUpLimited {
        /// The largest step.
        most: Amount,
    },
    /// A step down was shortened.
    StepDownLimited {
        /// The largest step.
        most: Amount,
    },
    /// A dimension is held because it changed recently.
    CoolDown {
        /// Which.
        dimension: Dimension,
        /// For how long still.
        remaining: SimDuration,
    },
    /// Everything is held because there were too many changes recently.
    RateLimited {
        /// Changes allowed.
        changes: u32,
        /// In this time.
        per: SimDuration,
        /// For how long still.
        remaining: SimDuration,
    },
    /// Nothing goes down while the SLO is violated.
    HeldWhileViolated,
    /// The SLO was violated after a step down, which is undone.
    RolledBack {
        /// How long after it.
        after: SimDuration,
    },
    /// Nothing goes down for a while after a step that was undone.
    HeldAfterRollback {
        /// For how long still.
        remaining: SimDuration,
    },
    /// Only a part of a step down is taken for now.
    CanaryFirst {
        /// How much.
        part: Amount,
    },
    /// The last part of a step down is still watched.
    CanaryWatched {
        /// For how long still.
        remaining: SimDuration,
    },
    /// The SLO was violated, so that a step down goes no further.
    CanaryFailed,
    /// This direction is paused.
    Paused(Pause),
}

impl GuardReason {
    /// Its kind without numbers, as metrics count reasons.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unexplained => "unexplained",
            Self::Refused { .. } => "refused",
            Self::MetricsStale { .. } => "metrics_stale",
            Self::MetricsMissing => "metrics_missing",
            Self::ScaleDownUncertain => "scale_down_uncertain",
            Self::AtMost(_) => "at_most",
            Self::AtLeast(_) => "at_least",
            Self::StepUpLimited { .. } => "step_up_limited",
            Self::StepDownLimited { .. } => "step_down_limited",
            Self::CoolDown { .. } => "cool_down",
            Self::RateLimited { .. } => "rate_limited",
            Self::HeldWhileViolated => "held_while_violated",
            Self::RolledBack { .. } => "rolled_back",
            Self::HeldAfterRollback { .. } => "held_after_rollback",
            Self::CanaryFirst { .. } => "canary_first",
            Self::CanaryWatched { .. } => "canary_watched",
            Self::CanaryFailed => "canary_failed",
            Self::Paused(_) => "paused",
        }
    }
}

impl fmt::Display for GuardReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexplained => write!(f, "the policy gave no reason"),
            Self::Refused { dimension, value } => {
                write!(f, "refused: {value} is not a valid amount of {dimension}")
            }
            Self::MetricsStale { remaining } => {
                write!(f, "held: metrics are incomplete, for another {}", Short(*remaining))
            }
            Self::MetricsMissing => write!(f, "held: utilisation is unknown"),
            Self::ScaleDownUncertain => write!(f, "held: no scale-down while a metric is missing"),
            Self::AtMost(amount) => write!(f, "clamped to at most {amount}"),
            Self::AtLeast(amount) => write!(f, "clamped to at least {amount}"),
            Self::StepUpLimited { most } => write!(f, "step up limited to {most}"),
            Self::StepDownLimited { most } => write!(f, "step down limited to {most}"),
            Self::CoolDown { dimension, remaining } => {
                write!(f, "held: {dimension} cool-down for another {}", Short(*remaining))
            }
            Self::RateLimited { changes, per, remaining } => {
                let (per, remaining) = (Short(*per), Short(*remaining));
                write!(f, "held: at most {changes} changes in {per}, for another {remaining}")
            }
            Self::HeldWhileViolated => {
                write!(f, "held: nothing goes down while the SLO is violated")
            }
            Self::RolledBack { after } => {
                let after = Short(*after);
                write!(f, "rolled back: the SLO was violated {after} after the last step down")
            }
            Self::HeldAfterRollback { remaining } => {
                let remaining = Short(*remaining);
                write!(f, "held: nothing goes down for another {remaining} after a rollback")
            }
            Self::CanaryFirst { part } => write!(f, "canary: {part} first"),
            Self::CanaryWatched { remaining } => {
                write!(f, "canary: observed for another {}", Short(*remaining))
            }
            Self::CanaryFailed => {
                write!(f, "canary: the SLO is violated, so the step stops here")
            }
            Self::Paused(pause) => write!(f, "paused: {pause}"),
        }
    }
}
