//! Holds scaling down while the SLO is violated.

use super::{Guard, GuardContext, remembers_nothing};
use crate::{Domain, GuardReason, Observe, Setting, SloStatus};

/// Holds every dimension of a target that violates its SLO; scaling up is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HoldWhileViolated {
    /// Whether it does anything.
    pub(crate) is_on: bool,
}

impl<D: Domain> Guard<D> for HoldWhileViolated {
    fn name(&self) -> &'static str {
        "hold_while_violated"
    }

    fn is_on(&self) -> bool {
        self.is_on
    }

    fn limit(
        &mut self,
        context: &GuardContext<'_, D>,
        wanted: D::Setting,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting {
        if context.obs().slo_status() != SloStatus::Violated {
            return wanted;
        }
        let held = context.clamp(wanted.at_least(context.from()));
        if held != wanted {
            reasons.push(GuardReason::HeldWhileViolated.into());
        }
        held
    }
}

remembers_nothing!(HoldWhileViolated);
