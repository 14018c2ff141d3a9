//! The allowed settings. A setting outside moves to the nearest one inside at once; step limits do
//! not apply to that move.

use super::{Guard, GuardContext, remembers_nothing};
use crate::{Domain, GuardReason, Setting};

/// Keeps settings inside bounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BoundsGuard<D: Domain> {
    bounds: D::Bounds,
}

impl<D: Domain> BoundsGuard<D> {
    /// A guard with these bounds.
    pub(crate) fn new(bounds: D::Bounds) -> Self {
        Self { bounds }
    }

    pub(crate) fn bounds(&self) -> &D::Bounds {
        &self.bounds
    }
}

impl<D: Domain> Guard<D> for BoundsGuard<D> {
    fn name(&self) -> &'static str {
        "bounds"
    }

    fn limit(
        &mut self,
        context: &GuardContext<'_, D>,
        wanted: D::Setting,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting {
        let inside = context.clamp(wanted);
        for (index, dimension) in D::Setting::DIMENSIONS.iter().enumerate() {
            let (amount, limit) = (wanted.amount(index), inside.amount(index));
            if limit < amount {
                reasons.push(GuardReason::AtMost(dimension.of(limit)).into());
            } else if limit > amount {
                reasons.push(GuardReason::AtLeast(dimension.of(limit)).into());
            }
        }
        inside
    }
}

remembers_nothing!(BoundsGuard<D>);
