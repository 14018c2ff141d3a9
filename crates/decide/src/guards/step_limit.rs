//! Limits how far each dimension may move in one decision.

use homeostat_core::Fraction;

use super::{Guard, GuardContext, remembers_nothing};
use crate::{Domain, Error, GuardReason, Result, Setting};

/// The largest step in one direction: the larger of an amount and a fraction of the present
/// amount, so that a small target can move at all and a large one in proportion. At least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepSize {
    /// This amount, in the dimension's base unit.
    pub absolute: u64,
    /// This fraction of the present amount, rounded down.
    pub relative: Fraction,
}

impl StepSize {
    /// An absolute amount.
    pub const fn absolute(amount: u64) -> Self {
        Self { absolute: amount, relative: Fraction::ZERO }
    }

    /// The largest step from `present`.
    pub fn largest(self, present: u64) -> u64 {
        let relative = (present as f64 * self.relative.ratio()) as u64;
        relative.max(self.absolute).max(1)
    }
}

/// The largest step each way in one dimension; none for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepLimit {
    /// Largest step up in one decision.
    pub up: Option<StepSize>,
    /// Largest step down in one decision.
    pub down: Option<StepSize>,
}

impl StepLimit {
    pub(crate) fn validate(&self) -> Result<()> {
        for step in [self.up, self.down].into_iter().flatten() {
            if step.absolute == 0 && step.relative == Fraction::ZERO {
                return Err(Error::setting("step", "above 0 (leave it out for no limit)", 0));
            }
        }
        Ok(())
    }
}

/// Shortens steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepLimitGuard {
    /// For each dimension; further dimensions have no limit.
    pub(crate) steps: Vec<StepLimit>,
}

impl<D: Domain> Guard<D> for StepLimitGuard {
    fn name(&self) -> &'static str {
        "step_limit"
    }

    fn is_on(&self) -> bool {
        !self.steps.is_empty()
    }

    fn limit(
        &mut self,
        context: &GuardContext<'_, D>,
        wanted: D::Setting,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting {
        let base = context.base();
        let mut left = wanted;
        for ((index, step), dimension) in self.steps.iter().enumerate().zip(D::Setting::DIMENSIONS)
        {
            let (present, amount) = (base.amount(index), wanted.amount(index));
            let is_up = amount > present;
            let Some(size) = (if is_up { step.up } else { step.down }) else { continue };
            let largest = size.largest(present);
            if present.abs_diff(amount) <= largest {
                continue;
            }
            let most = dimension.of(largest);
            let (amount, reason) = if is_up {
                (present.saturating_add(largest), GuardReason::StepUpLimited { most })
            } else {
                (present - largest, GuardReason::StepDownLimited { most })
            };
            left = left.with_amount(index, amount);
            reasons.push(reason.into());
        }
        left
    }
}

remembers_nothing!(StepLimitGuard);
