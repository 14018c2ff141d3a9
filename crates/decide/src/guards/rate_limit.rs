//! Limits the number of changes in a period.

use homeostat_core::{Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use super::last_decision::LastDecision;
use super::{Guard, GuardContext};
use crate::timed_counts::TimedCounts;
use crate::{Domain, Error, GuardReason, Observe, Result};

/// At most this many changes in any period of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitConfig {
    /// Changes allowed.
    pub changes: u32,
    /// In this time.
    pub per: SimDuration,
}

impl RateLimitConfig {
    pub(crate) fn validate(&self) -> Result<()> {
        let need = "above 0 (leave it out for no limit)";
        if self.changes == 0 {
            return Err(Error::setting("changes of the rate limit", need, 0));
        }
        if self.per == SimDuration::ZERO {
            return Err(Error::setting("time of the rate limit", need, self.per));
        }
        Ok(())
    }
}

/// Remembers recent changes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RateLimit {
    config: Option<RateLimitConfig>,
    changes: TimedCounts,
    last_decision: LastDecision,
}

impl RateLimit {
    /// A guard without state.
    pub(crate) fn new(config: Option<RateLimitConfig>) -> Self {
        Self { config, changes: TimedCounts::default(), last_decision: LastDecision::default() }
    }

    pub(crate) fn set_config(&mut self, config: Option<RateLimitConfig>) {
        self.config = config;
    }

    /// Time until the next change is allowed; none if it is allowed now.
    fn wait(&mut self, now: SimTime, config: RateLimitConfig) -> Option<SimDuration> {
        self.changes.forget(now, config.per);
        // The change that must leave the period before the number is below the limit again.
        let blocking = self.changes.len().checked_sub(config.changes as usize)?;
        self.changes.time(blocking).map(|at| (at + config.per).saturating_since(now))
    }
}

impl<D: Domain> Guard<D> for RateLimit {
    fn name(&self) -> &'static str {
        "rate_limit"
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
        let nearest = self.last_decision.nearest_setting(context.base(), wanted);
        let Some(config) = self.config.filter(|_| wanted != nearest) else { return wanted };
        let Some(remaining) = self.wait(context.obs().now(), config) else { return wanted };
        let RateLimitConfig { changes, per } = config;
        reasons.push(GuardReason::RateLimited { changes, per, remaining }.into());
        nearest
    }

    fn note(&mut self, context: &GuardContext<'_, D>, applied: &D::Setting) {
        if self.last_decision.nearest_setting(context.from(), *applied) != *applied {
            self.changes.push(context.obs().now(), 1);
        }
        self.last_decision.note(applied);
    }
}

impl Persist for RateLimit {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.changes.save(name, out);
        self.last_decision.save(&format!("{name}/last_decision"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.changes.load(name, from)?;
        self.last_decision.load(&format!("{name}/last_decision"), from)
    }
}
