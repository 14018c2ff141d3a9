//! Automatic rollback: a step down after which the SLO was violated is undone once, and scaling
//! down is then held for a while. A step is a measured change of the target: a decision that a
//! pause or a maintenance window held back has no effect on the SLO.

use homeostat_core::{Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use super::{Guard, GuardContext};
use crate::{Domain, GuardReason, Observe, Setting, SloStatus};

/// Settings of automatic rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoRollbackConfig {
    /// How long the SLO is watched after a step down.
    pub watch: SimDuration,
    /// How long scaling down is held after a rollback.
    pub hold: SimDuration,
}

/// Remembers recent steps down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AutoRollback {
    config: Option<AutoRollbackConfig>,
    /// The previous observation: its time, the setting before any gradual step down, and whether
    /// the SLO was met.
    last: Option<(SimTime, Vec<u64>, bool)>,
    /// For each dimension, the time of its last step down and the amount before it.
    watched: Vec<Option<(SimTime, u64)>>,
    /// Until when scaling down is held, and the lower limit meanwhile.
    hold: Option<(SimTime, Vec<u64>)>,
}

impl AutoRollback {
    /// A guard without state; without settings it is off.
    pub(crate) fn new(config: Option<AutoRollbackConfig>) -> Self {
        Self { config, last: None, watched: Vec::new(), hold: None }
    }

    pub(crate) fn set_config(&mut self, config: Option<AutoRollbackConfig>) {
        self.config = config;
    }

    /// Whether scaling down is held after a rollback.
    pub(crate) fn holds(&self) -> bool {
        self.config.is_some() && self.hold.is_some()
    }

    /// Starts to watch dimensions that went down, and returns the setting that the next observation
    /// is compared with. A step down while the SLO was already violated is not watched.
    fn watch_steps<S: Setting>(&mut self, present: &S, now: SimTime) -> Vec<u64> {
        let present = amounts(present);
        let Some((_, last, true)) = &self.last else { return present };
        let reference = |(index, present): (usize, u64)| {
            let last = last.get(index).copied().unwrap_or(present);
            // A mean over replicas is rounded, and falls gradually while replicas change.
            let slack = if S::is_counted(index) { 0.0 } else { 0.01 };
            if present as f64 >= last as f64 * (1.0 - slack) {
                return last.max(present);
            }
            let before = self.watched[index].map_or(0, |(_, before)| before);
            self.watched[index] = Some((now, before.max(last)));
            present
        };
        present.into_iter().enumerate().map(reference).collect()
    }

    fn forget(&mut self, config: &AutoRollbackConfig, now: SimTime) {
        let is_watched = |at: SimTime| now <= at + config.watch;
        self.last.take_if(|(at, ..)| !is_watched(*at));
        for watched in &mut self.watched {
            watched.take_if(|(at, _)| !is_watched(*at));
        }
        self.hold.take_if(|(until, _)| now >= *until);
    }
}

fn amounts<S: Setting>(setting: &S) -> Vec<u64> {
    (0..S::DIMENSIONS.len()).map(|dimension| setting.amount(dimension)).collect()
}

fn raised<S: Setting>(setting: S, least: &[u64]) -> S {
    least.iter().enumerate().fold(setting, |setting, (dimension, least)| {
        setting.with_amount(dimension, setting.amount(dimension).max(*least))
    })
}

impl<D: Domain> Guard<D> for AutoRollback {
    fn name(&self) -> &'static str {
        "auto_rollback"
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
        let Some(config) = self.config else { return wanted };
        let (obs, now) = (context.obs(), context.obs().now());
        self.forget(&config, now);
        self.watched.resize(D::Setting::DIMENSIONS.len(), None);
        let reference = self.watch_steps(&obs.measured(), now);
        self.last = Some((now, reference, obs.slo_status() == SloStatus::Met));
        let not_lower = wanted.at_least(context.from());
        let latest = self.watched.iter().flatten().map(|(at, _)| *at).max();
        if obs.slo_status() == SloStatus::Violated
            && let Some(at) = latest
        {
            let before = self.watched.iter().map(|watched| watched.map_or(0, |(_, before)| before));
            let before: Vec<u64> = before.collect();
            self.watched.fill(None);
            let after = now.saturating_since(at);
            reasons.push(GuardReason::RolledBack { after }.into());
            let restored = context.clamp(raised(not_lower, &before));
            self.hold = Some((now + config.hold, before));
            return restored;
        }
        let Some((until, before)) = &self.hold else { return wanted };
        let held = context.clamp(raised(not_lower, before));
        if held != wanted {
            let remaining = until.saturating_since(now);
            reasons.push(GuardReason::HeldAfterRollback { remaining }.into());
        }
        held
    }
}

impl Persist for AutoRollback {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let last = self.last.iter().flat_map(|(at, amounts, is_met)| {
            [at.nanos(), u64::from(*is_met)].into_iter().chain(amounts.iter().copied())
        });
        out.put_u64(&format!("{name}/last"), last.collect::<Vec<_>>());
        // Nothing goes down from zero, so zero encodes none.
        let watched = self
            .watched
            .iter()
            .flat_map(|watched| watched.map_or([0, 0], |(at, before)| [at.nanos(), before]));
        out.put_u64(&format!("{name}/watched"), watched.collect::<Vec<_>>());
        let hold = self.hold.iter().flat_map(|(until, amounts)| {
            std::iter::once(until.nanos()).chain(amounts.iter().copied())
        });
        out.put_u64(&format!("{name}/hold"), hold.collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.last = match from.any_u64s(&format!("{name}/last"))? {
            [at, is_met, amounts @ ..] => {
                Some((SimTime::from_nanos(*at), amounts.to_vec(), *is_met != 0))
            }
            _ => None,
        };
        let watched = from.any_u64s(&format!("{name}/watched"))?.chunks_exact(2);
        self.watched = watched
            .map(|pair| (pair[1] > 0).then(|| (SimTime::from_nanos(pair[0]), pair[1])))
            .collect();
        self.hold = match from.any_u64s(&format!("{name}/hold"))? {
            [until, amounts @ ..] => Some((SimTime::from_nanos(*until), amounts.to_vec())),
            [] => None,
        };
        Ok(())
    }
}
