//! What was decided, and why.

use std::fmt;

use homeostat_core::SimTime;

use crate::{Domain, PodScaling};

/// One decision: what was found, what the policy wanted, what the guards let through, and at
/// least one reason.
///
/// Only [`decide`](crate::decide()) makes one, and nobody can change it:
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

    /// When.
    pub fn at(&self) -> SimTime {
        self.at
    }

    /// The setting that was found.
    pub fn from(&self) -> &D::Setting {
        &self.from
    }

    /// What the policy proposed; the setting that was found if it was not asked or refused.
    pub fn proposed(&self) -> &D::Setting {
        &self.proposed
    }

    /// What is to be carried out.
    pub fn applied(&self) -> &D::Setting {
        &self.applied
    }

    /// Why: the policy's reasons first, then those of the guards in the order they ran.
    pub fn reasons(&self) -> &[D::Reason] {
        &self.reasons
    }

    /// Whether anything is to be changed.
    pub fn is_change(&self) -> bool {
        self.applied != self.from
    }

    /// Whether a guard stands between what was proposed and what is carried out.
    pub fn is_limited(&self) -> bool {
        self.applied != self.proposed
    }
}

/// One line for people, as `explain` shows it.
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
