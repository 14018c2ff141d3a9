//! How fast the number of replicas may follow its metrics.

use homeostat_core::{Bounds, Persist, Result as CoreResult, SimDuration, SimTime, Snapshot};

use crate::snapshot_records::records;
use crate::timed_counts::TimedCounts;
use crate::{Error, Reason, Result};

/// By how much a scaling policy lets the number of replicas change in its period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalingStep {
    /// This many replicas.
    Replicas(u32),
    /// This percentage of the replicas at the start of the period.
    Percent(u32),
}

/// A limit of change in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScalingPolicy {
    /// By how much.
    pub step: ScalingStep,
    /// In this time.
    pub period: SimDuration,
}

/// Which of several scaling policies counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectPolicy {
    /// The one that allows the largest change.
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: no change in this direction.
    Disabled,
}

/// Rules of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalingRules {
    /// The most careful recommendation of this window counts.
    pub stabilization: SimDuration,
    /// Which policy counts.
    pub select: SelectPolicy,
    /// The policies.
    pub policies: Vec<ScalingPolicy>,
}

/// Rules of both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalingBehavior {
    /// Towards more replicas.
    pub up: ScalingRules,
    /// Towards fewer replicas.
    pub down: ScalingRules,
}

/// Kubernetes' defaults: up at once, by the larger of 100 % and 4 replicas in 15 s; down to
/// the highest recommendation of 300 s.
impl Default for ScalingBehavior {
    fn default() -> Self {
        let period = SimDuration::from_secs(15);
        let double = ScalingPolicy { step: ScalingStep::Percent(100), period };
        let four = ScalingPolicy { step: ScalingStep::Replicas(4), period };
        Self {
            up: ScalingRules {
                stabilization: SimDuration::ZERO,
                select: SelectPolicy::Max,
                policies: vec![four, double],
            },
            down: ScalingRules {
                stabilization: SimDuration::from_secs(300),
                select: SelectPolicy::Max,
                policies: vec![double],
            },
        }
    }
}

impl ScalingBehavior {
    pub(super) fn validate(&self) -> Result<()> {
        for rules in [&self.up, &self.down] {
            if rules.policies.is_empty() && rules.select != SelectPolicy::Disabled {
                let need = "given unless the direction is disabled";
                return Err(Error::setting("scaling policies", need, "none"));
            }
            for policy in &rules.policies {
                let (ScalingStep::Replicas(step) | ScalingStep::Percent(step)) = policy.step;
                if step == 0 {
                    return Err(Error::setting("step of a scaling policy", "above 0", step));
                }
                if policy.period == SimDuration::ZERO {
                    let value = policy.period;
                    return Err(Error::setting("period of a scaling policy", "above 0", value));
                }
            }
        }
        Ok(())
    }

    fn longest_period(&self) -> SimDuration {
        let policies = self.up.policies.iter().chain(&self.down.policies);
        policies.map(|policy| policy.period).max().unwrap_or_default()
    }
}

/// Earlier recommendations and changes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct BehaviorMemory {
    recommendations: TimedCounts,
    added: TimedCounts,
    removed: TimedCounts,
    /// The last change asked for: when, from how many replicas, to how many.
    pending: Option<(SimTime, u32, u32)>,
}

/// What the metrics ask for, before the rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recommendation {
    /// When it is made.
    pub(super) now: SimTime,
    /// Time between two of them.
    pub(super) interval: SimDuration,
    /// The present number of replicas.
    pub(super) current: u32,
    /// The recommended number.
    pub(super) replicas: u32,
}

/// After this many missed evaluations, the history counts as interrupted.
const MAX_INTERVALS: u64 = 2;

impl BehaviorMemory {
    /// Notes how much of the last change took effect: guards may have cut it, and what
    /// others change does not count against the autoscaler's own rate.
    pub(super) fn note_effect(&mut self, current: u32) {
        let Some((at, from, to)) = self.pending.take() else { return };
        let (changes, effect) = if to > from {
            (&mut self.added, current.min(to).saturating_sub(from))
        } else {
            (&mut self.removed, from.saturating_sub(current.max(to)))
        };
        // Without an effect this happens at every evaluation, so it is not recorded.
        if effect > 0 {
            changes.push(at, effect);
        }
    }

    /// Notes a change that is being asked for.
    pub(super) fn note_change(&mut self, now: SimTime, from: u32, to: u32) {
        if from != to {
            self.pending = Some((now, from, to));
        }
    }

    /// What the rules allow of a recommendation. Every rule that limits it adds its reason.
    pub(super) fn limit(
        &mut self,
        behavior: &ScalingBehavior,
        recommendation: Recommendation,
        bounds: &Bounds<u32>,
    ) -> (u32, Vec<Reason>) {
        let Recommendation { now, current, replicas: recommended, .. } = recommendation;
        let mut reasons = Vec::new();
        let stabilized = self.stabilize(behavior, recommendation);
        if stabilized != recommended {
            let up = stabilized < recommended;
            let rules = if up { &behavior.up } else { &behavior.down };
            let window = rules.stabilization;
            reasons.push(Reason::Stabilized { recommended, replicas: stabilized, window });
        }
        let longest = behavior.longest_period();
        self.added.forget(now, longest);
        self.removed.forget(now, longest);
        let by_rate = if stabilized > current {
            stabilized.min(self.most(&behavior.up, now, current))
        } else if stabilized < current {
            stabilized.max(self.least(&behavior.down, now, current))
        } else {
            current
        };
        if by_rate != stabilized {
            reasons.push(Reason::ScalingRate { replicas: by_rate });
        }
        let inside = bounds.clamp(by_rate);
        if inside != by_rate {
            reasons.push(Reason::OwnLimit { replicas: inside });
        }
        (inside, reasons)
    }

    /// The present number, moved only as far as every recommendation of the windows agrees.
    fn stabilize(&mut self, behavior: &ScalingBehavior, recommendation: Recommendation) -> u32 {
        let Recommendation { now, interval, current, replicas: recommended } = recommendation;
        let (up, down) = (behavior.up.stabilization, behavior.down.stabilization);
        // An interval longer than the windows is no silence.
        let longest = up.max(down).max(interval * MAX_INTERVALS);
        if self.recommendations.latest().is_none_or(|latest| latest + longest < now) {
            // Nothing is known of the window, at a fresh start or after a silence that was longer:
            // the present number stands in for it.
            // Deviation: Kubernetes does so at a fresh start only, and goes down at once after a
            // silence.
            self.recommendations.push(now, current);
        }
        let lowest = self.recommendations.within(now, up).fold(recommended, u32::min);
        let highest = self.recommendations.within(now, down).fold(recommended, u32::max);
        self.recommendations.forget(now, up.max(down));
        self.recommendations.push(now, recommended);
        current.max(lowest).min(highest)
    }

    fn most(&self, rules: &ScalingRules, now: SimTime, current: u32) -> u32 {
        let limits = rules.policies.iter().map(|policy| {
            let start = self.start_of(policy.period, now, current);
            match policy.step {
                ScalingStep::Replicas(step) => start + f64::from(step),
                ScalingStep::Percent(step) => (start * (100.0 + f64::from(step)) / 100.0).ceil(),
            }
        });
        let limit = match rules.select {
            SelectPolicy::Max => limits.reduce(f64::max),
            SelectPolicy::Min => limits.reduce(f64::min),
            SelectPolicy::Disabled => None,
        };
        // A rate that is used up allows no more, but takes nothing back.
        limit.map_or(current, |limit| limit as u32).max(current)
    }

    fn least(&self, rules: &ScalingRules, now: SimTime, current: u32) -> u32 {
        let limits = rules.policies.iter().map(|policy| {
            let start = self.start_of(policy.period, now, current);
            match policy.step {
                ScalingStep::Replicas(step) => start - f64::from(step),
                ScalingStep::Percent(step) => (start * (100.0 - f64::from(step)) / 100.0).trunc(),
            }
        });
        let limit = match rules.select {
            SelectPolicy::Max => limits.reduce(f64::min),
            SelectPolicy::Min => limits.reduce(f64::max),
            SelectPolicy::Disabled => None,
        };
        limit.map_or(current, |limit| limit as u32).min(current)
    }

    /// Replicas at the start of a period that ends now.
    fn start_of(&self, period: SimDuration, now: SimTime, current: u32) -> f64 {
        let sum = |counts: &TimedCounts| counts.within(now, period).map(f64::from).sum::<f64>();
        f64::from(current) - sum(&self.added) + sum(&self.removed)
    }
}

impl Persist for BehaviorMemory {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.recommendations.save(&format!("{name}/recommendations"), out);
        self.added.save(&format!("{name}/added"), out);
        self.removed.save(&format!("{name}/removed"), out);
        let pending = self.pending.map(|(at, from, to)| [at.nanos(), from.into(), to.into()]);
        out.put_u64(&format!("{name}/pending"), pending.into_iter().flatten().collect::<Vec<_>>());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.recommendations.load(&format!("{name}/recommendations"), from)?;
        self.added.load(&format!("{name}/added"), from)?;
        self.removed.load(&format!("{name}/removed"), from)?;
        let pending = records(from, &format!("{name}/pending"))?;
        self.pending = pending
            .first()
            .map(|[at, before, after]| (SimTime::from_nanos(*at), *before as u32, *after as u32));
        Ok(())
    }
}
