//! Decisions with their reasons.

use std::fmt;

use homeostat_core::SimTime;

use crate::{Domain, PodScaling};

/// One decision: the present setting, the proposed one, the one to apply, and at least one reason.
///
/// Only [`decide`](crate::decide()) makes one, and it cannot be changed:
///
/// ```compile_fail
/// fn enlarge(mut decision: homeostat_decide::Decision) {
///     decision.applied.replicas += 1; // error: the field is private
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<D: Domain = PodScaling> {
    at: SimTime,
    from: D::Setting,
    proposed: D::Setting,
    applied: D::Setting,
    reasons: Vec<D::Reason>,
}

impl<D: Domain> Decision<D> {
    pub(crate) fn new(
        at: SimTime,
        from: D::Setting,
        proposed: D::Setting,
        applied: D::Setting,
        reasons: Vec<D::Reason>,
    ) -> Self {
        Self { at, from, proposed, applied, reasons }
    }

    /// When it was made.
    pub fn at(&self) -> SimTime {
        self.at
    }

    /// The setting before the decision.
    pub fn from(&self) -> &D::Setting {
        &self.from
    }

    /// The policy's proposal; the present setting if the policy was not asked or its proposal was
    /// rejected.
    pub fn proposed(&self) -> &D::Setting {
        &self.proposed
    }

    /// The setting to apply.
    pub fn applied(&self) -> &D::Setting {
        &self.applied
    }

    /// The policy's reasons, then those of the guards in the order in which they ran.
    pub fn reasons(&self) -> &[D::Reason] {
        &self.reasons
    }

    /// Whether the setting changes.
    pub fn is_change(&self) -> bool {
        self.applied != self.from
    }

    /// Whether a guard changed the proposal.
    pub fn is_limited(&self) -> bool {
        self.applied != self.proposed
    }
}

/// One line of text, as `explain` shows it.
impl<D: Domain> fmt::Display for Decision<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.at)?;
        if self.is_change() {
            write!(f, "{} -> {}", self.from, self.applied)?;
        } else {
            write!(f, "stay at {}", self.from)?;
        }
        for (index, reason) in self.reasons.iter().enumerate() {
            write!(f, "{}{reason}", if index == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}
