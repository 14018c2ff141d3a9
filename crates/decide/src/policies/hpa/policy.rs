//! The autoscaler itself: metrics, then behaviour.

use homeostat_core::{
    Bounds, Bytes, Fraction, Persist, Result as CoreResult, SimDuration, Snapshot,
};

use super::behavior::{BehaviorMemory, Recommendation, ScalingBehavior};
use super::metric::HpaMetric;
use super::readiness::ReadinessMemory;
use super::replica_calculation::{Asked, Outcome, for_total, for_utilization};
use crate::{Error, Observation, Policy, Proposal, Reason, Result};

/// Settings of [`Hpa`], with Kubernetes' defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct HpaConfig {
    /// What is measured; the metric that asks for the most wins.
    pub metrics: Vec<HpaMetric>,
    /// Fewest replicas. With more than zero, a target at zero replicas is left alone.
    pub min_replicas: u32,
    /// Most replicas. No limit by default: the guards have one.
    pub max_replicas: u32,
    /// Measured over target may be this far from one before anything is done.
    pub tolerance: Fraction,
    /// For this long after its start a replica's CPU counts only once it is ready.
    pub cpu_initialization_period: SimDuration,
    /// A replica that becomes unready within this time of its start was never ready.
    pub initial_readiness_delay: SimDuration,
    /// How fast the number may change.
    pub behavior: ScalingBehavior,
}

impl Default for HpaConfig {
    /// 80 % CPU is what Kubernetes assumes when no metric is named.
    fn default() -> Self {
        Self {
            metrics: vec![HpaMetric::CpuUtilization { target_percent: 80 }],
            min_replicas: 1,
            max_replicas: u32::MAX,
            tolerance: Fraction::from_percent(10),
            cpu_initialization_period: SimDuration::from_secs(300),
            initial_readiness_delay: SimDuration::from_secs(30),
            behavior: ScalingBehavior::default(),
        }
    }
}

impl HpaConfig {
    /// Refuses settings that measure nothing or can never move.
    pub fn build(self) -> Result<Hpa> {
        if self.metrics.is_empty() {
            return Err(Error::setting("metrics", "at least one", "none"));
        }
        self.metrics.iter().try_for_each(HpaMetric::validate)?;
        if self.max_replicas == 0 {
            return Err(Error::setting("max_replicas", "at least 1", 0));
        }
        let bounds = Bounds::try_new(self.min_replicas, self.max_replicas).map_err(|_| {
            Error::setting("min_replicas", "at most max_replicas", self.min_replicas)
        })?;
        self.behavior.validate()?;
        let (readiness, behavior) = Default::default();
        Ok(Hpa { config: self, bounds, readiness, behavior })
    }
}

/// The horizontal pod autoscaler. It changes the number of replicas and nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct Hpa {
    config: HpaConfig,
    bounds: Bounds<u32>,
    readiness: ReadinessMemory,
    behavior: BehaviorMemory,
}

impl Hpa {
    /// Another target of the CPU metric, which is the first one.
    pub(in crate::policies) fn set_cpu_target(&mut self, percent: u32) {
        if let Some(HpaMetric::CpuUtilization { target_percent }) = self.config.metrics.first_mut()
        {
            *target_percent = percent;
        }
    }

    /// The proposal if another rule asks for a number of replicas at once. Scaling rates, bounds
    /// and the stabilisation window apply to it as to every recommendation.
    pub(in crate::policies) fn propose_at_least(
        &mut self,
        obs: &Observation,
        at_once: Option<u32>,
    ) -> Proposal {
        let current = obs.allocation.replicas;
        self.behavior.note_effect(current);
        self.readiness.observe(obs);
        let (desired, reasons) = self.desired(obs, at_once);
        self.behavior.note_change(obs.now, current, desired);
        Proposal { replicas: f64::from(desired), reasons, ..Proposal::keep(&obs.allocation) }
    }

    fn desired(&mut self, obs: &Observation, at_once: Option<u32>) -> (u32, Vec<Reason>) {
        let current = obs.allocation.replicas;
        if current == 0 && self.bounds.low() > 0 {
            return (current, vec![Reason::ScaledToZero]);
        }
        if !self.bounds.contains(current) {
            let replicas = self.bounds.clamp(current);
            return (replicas, vec![Reason::OwnLimit { replicas }]);
        }
        let (recommended, mut reasons) = self.recommended(obs);
        let Some(recommended) = recommended.max(at_once) else { return (current, reasons) };
        let config = &self.config.behavior;
        let recommendation =
            Recommendation { now: obs.now, interval: obs.window, current, replicas: recommended };
        let (desired, limits) = self.behavior.limit(config, recommendation, &self.bounds);
        reasons.extend(limits);
        (desired, reasons)
    }

    /// The largest number that a metric asks for; none if that cannot be known.
    fn recommended(&self, obs: &Observation) -> (Option<u32>, Vec<Reason>) {
        let current = obs.allocation.replicas;
        let answers: Vec<_> =
            self.config.metrics.iter().map(|metric| (*metric, self.ask(obs, metric))).collect();
        let mut reasons: Vec<_> =
            answers.iter().map(|(metric, asked)| self.explain(obs, *metric, *asked)).collect();
        let largest =
            answers.iter().filter_map(|(_, asked)| *asked).map(|asked| asked.replicas).max();
        let is_partial = answers.iter().any(|(_, asked)| asked.is_none());
        // The metric that is missing may be the one that would have asked for more.
        if is_partial && largest.is_some_and(|largest| largest < current) {
            reasons.push(Reason::ScaleDownUncertain);
            return (None, reasons);
        }
        (largest, reasons)
    }

    fn ask(&self, obs: &Observation, metric: &HpaMetric) -> Option<Asked> {
        let config = &self.config;
        let current = obs.allocation.replicas;
        match *metric {
            HpaMetric::CpuUtilization { target_percent } => {
                let groups = self.readiness.cpu_groups(
                    obs,
                    config.cpu_initialization_period,
                    config.initial_readiness_delay,
                );
                for_utilization(current, &groups, target_percent, config.tolerance)
            }
            HpaMetric::MemoryUtilization { target_percent } => {
                let groups = self.readiness.memory_groups(obs);
                for_utilization(current, &groups, target_percent, config.tolerance)
            }
            HpaMetric::Concurrency { target } => {
                for_total(current, obs.concurrency, target, config.tolerance)
            }
            HpaMetric::Arrivals { target } => {
                for_total(current, obs.arrivals_per_s, target, config.tolerance)
            }
            HpaMetric::Query { index, target } => {
                let answer = obs.queries.get(index).copied().flatten()?;
                for_total(current, answer, target, config.tolerance)
            }
        }
    }

    fn explain(&self, obs: &Observation, metric: HpaMetric, asked: Option<Asked>) -> Reason {
        let Some(Asked { replicas, measured, outcome }) = asked else {
            let is_requested = match metric {
                HpaMetric::CpuUtilization { .. } => obs.all_request_cpu(),
                HpaMetric::MemoryUtilization { .. } => obs.allocation.memory > Bytes::ZERO,
                _ => true,
            };
            return Reason::MetricUnavailable { metric, is_requested };
        };
        let tolerance = self.config.tolerance;
        match outcome {
            Outcome::InProportion => Reason::MetricAsks { metric, measured, replicas },
            Outcome::WithinTolerance => Reason::WithinTolerance { metric, measured, tolerance },
            Outcome::DirectionUnclear { unready, missing } => {
                Reason::DirectionUnclear { metric, unready, missing }
            }
        }
    }
}

impl Policy for Hpa {
    fn name(&self) -> &str {
        "hpa"
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        self.propose_at_least(obs, None)
    }
}

impl Persist for Hpa {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.readiness.save(&format!("{name}/readiness"), out);
        self.behavior.save(&format!("{name}/behavior"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.readiness.load(&format!("{name}/readiness"), from)?;
        self.behavior.load(&format!("{name}/behavior"), from)
    }
}
