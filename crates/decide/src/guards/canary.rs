//! A canary: a step down is taken in parts, and continues while the SLO is met.

use homeostat_core::{Fraction, Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use super::{Guard, GuardContext};
use crate::{Domain, GuardReason, Observe, Setting, SloStatus};

/// An absolute number or a fraction of the present amount; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// This many.
    Count(u64),
    /// This fraction, rounded down.
    Part(Fraction),
}

impl Share {
    /// The share of a total.
    pub fn of(self, all: u64) -> u64 {
        match self {
            Self::Count(count) => count.max(1),
            Self::Part(part) => ((all as f64 * part.ratio()) as u64).max(1),
        }
    }
}

/// Settings of the canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CanaryConfig {
    /// Index of the dimension that goes down in parts: for pods, their number. The updater changes
    /// sizes pod by pod anyway.
    pub dimension: usize,
    /// The size of one part.
    pub share: Share,
    /// How long the SLO is watched after each part.
    pub watch: SimDuration,
}

/// Remembers when the last part of a step was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Canary {
    config: Option<CanaryConfig>,
    stepped_at: Option<SimTime>,
}

impl Canary {
    /// A guard without state; without settings it is off.
    pub(crate) fn new(config: Option<CanaryConfig>) -> Self {
        Self { config, stepped_at: None }
    }

    pub(crate) fn set_config(&mut self, config: Option<CanaryConfig>) {
        self.config = config;
    }
}

impl<D: Domain> Guard<D> for Canary {
    fn name(&self) -> &'static str {
        "canary"
    }

    fn is_on(&self) -> bool {
        self.config.is_some()
    }

    fn limit(
        &mut self,
        context: &GuardContext<'_, D>,
        wanted: D::Setting,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting {
        let Some(CanaryConfig { dimension, share, watch }) = self.config else { return wanted };
        let (from, to) = (context.from().amount(dimension), wanted.amount(dimension));
        if to >= from {
            return wanted;
        }
        let stay = wanted.with_amount(dimension, from);
        let now = context.obs().now();
        if context.obs().slo_status() == SloStatus::Violated {
            reasons.push(GuardReason::CanaryFailed.into());
            return stay;
        }
        if let Some(until) = self.stepped_at.map(|at| at + watch).filter(|until| now < *until) {
            let remaining = until.saturating_since(now);
            reasons.push(GuardReason::CanaryWatched { remaining }.into());
            return stay;
        }
        let part = share.of(from).min(from - to);
        let step = wanted.with_amount(dimension, from - part);
        if step != wanted {
            let part = D::Setting::DIMENSIONS[dimension].of(part);
            reasons.push(GuardReason::CanaryFirst { part }.into());
        }
        step
    }

    /// A step that a later guard holds, such as the pause, was not taken.
    fn note(&mut self, context: &GuardContext<'_, D>, applied: &D::Setting) {
        if let Some(CanaryConfig { dimension, .. }) = self.config
            && applied.amount(dimension) < context.from().amount(dimension)
        {
            self.stepped_at = Some(context.obs().now());
        }
    }
}

impl Persist for Canary {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let at = self.stepped_at.map(SimTime::nanos);
        out.put_u64(name, at.into_iter().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.stepped_at = from.any_u64s(name)?.first().copied().map(SimTime::from_nanos);
        Ok(())
    }
}
