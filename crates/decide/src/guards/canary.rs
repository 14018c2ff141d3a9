//! A canary: a step down is tried on a part first, and goes on when the SLO held.

use homeostat_core::{Fraction, Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use super::{Guard, Situation};
use crate::{Domain, GuardReason, Observe, Setting, SloStatus};

/// A number, or a part of what there is; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// This many.
    Count(u64),
    /// This part, rounded down.
    Part(Fraction),
}

impl Share {
    /// How many of so many.
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
    /// Index of the dimension that goes down part by part: for pods, their number. Sizes change
    /// pod by pod where they are carried out.
    pub dimension: usize,
    /// How much goes at once.
    pub share: Share,
    /// How long each part is watched before the next goes.
    pub watch: SimDuration,
}

/// Remembers when the last part of a step was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Canary {
    config: Option<CanaryConfig>,
    stepped_at: Option<SimTime>,
}

impl Canary {
    /// A canary that has taken no step; without settings it does nothing.
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
        situation: &Situation<'_, D>,
        wanted: D::Setting,
        reasons: &mut Vec<D::Reason>,
    ) -> D::Setting {
        let Some(CanaryConfig { dimension, share, watch }) = self.config else { return wanted };
        let (from, to) = (situation.from().amount(dimension), wanted.amount(dimension));
        if to >= from {
            return wanted;
        }
        let stay = wanted.with_amount(dimension, from);
        let now = situation.obs().now();
        if situation.obs().slo_status() == SloStatus::Violated {
            reasons.push(GuardReason::CanaryFailed.into());
            return stay;
        }
        if let Some(until) = self.stepped_at.map(|at| at + watch).filter(|until| now < *until) {
            let remaining = until.saturating_since(now);
            reasons.push(GuardReason::CanaryWatched { remaining }.into());
            return stay;
        }
        let part = share.of(from).min(from - to);
        self.stepped_at = Some(now);
        let step = wanted.with_amount(dimension, from - part);
        if step != wanted {
            let part = D::Setting::DIMENSIONS[dimension].of(part);
            reasons.push(GuardReason::CanaryFirst { part }.into());
        }
        step
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
