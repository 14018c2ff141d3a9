//! Pauses scaling of a target in an emergency.

use std::fmt;

use super::{Guard, GuardContext, remembers_nothing};
use crate::{Domain, GuardReason, Setting};

/// What is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// Everything.
    All,
    /// Scaling down.
    In,
    /// Scaling up.
    Out,
}

impl Pause {
    /// The amount after a change that the pause may hold.
    pub fn limit_amount<T: Ord>(self, from: T, to: T) -> T {
        match self {
            Self::All => from,
            Self::In => to.max(from),
            Self::Out => to.min(from),
        }
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::In => "in",
            Self::Out => "out",
        })
    }
}

/// Holds the paused direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PauseGuard {
    /// What is paused; none for nothing.
    pub(crate) pause: Option<Pause>,
}

impl<D: Domain> Guard<D> for PauseGuard {
    fn name(&self) -> &'static str {
        "pause"
    }

    fn limit(
        &mut self,
        context: &GuardContext<'_, D>,
        wanted: D::Setting,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting {
        let Some(pause) = self.pause else { return wanted };
        let left = context.from().combine(wanted, |from, to| pause.limit_amount(from, to));
        if left != wanted {
            reasons.push(GuardReason::Paused(pause).into());
        }
        left
    }
}

remembers_nothing!(PauseGuard);
