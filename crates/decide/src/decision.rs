//! What was decided, and why.

use std::fmt;

use homeostat_core::SimTime;

use crate::{Allocation, Reason};

/// One decision: what was found, what the policy wanted, what the guardrails let through,
/// and at least one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// When.
    pub at: SimTime,
    /// The allocation that was found.
    pub from: Allocation,
    /// What the policy proposed; the allocation that was found if the proposal was refused.
    pub proposed: Allocation,
    /// What is to be done.
    pub applied: Allocation,
    /// Why, the policy's reasons first.
    pub reasons: Vec<Reason>,
}

impl Decision {
    /// Whether anything is to be changed.
    pub fn is_change(&self) -> bool {
        self.applied != self.from
    }
}

/// One line for people, as `explain` shows it.
impl fmt::Display for Decision {
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
