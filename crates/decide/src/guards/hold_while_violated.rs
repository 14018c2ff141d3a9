//! Nothing is made smaller while the SLO is violated, whatever the policy says.

use super::{Guard, Situation, remembers_nothing};
use crate::{Domain, GuardReason, Observe, Setting, SloStatus};

/// Holds every dimension of a target that violates its SLO.
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
        situation: &Situation<'_, D>,
        wanted: D::Setting,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting {
        if situation.obs().slo_status() != SloStatus::Violated {
            return wanted;
        }
        let held = situation.clamp(wanted.at_least(situation.from()));
        if held != wanted {
            reasons.push(GuardReason::HeldWhileViolated.into());
        }
        held
    }
}

remembers_nothing!(HoldWhileViolated);
