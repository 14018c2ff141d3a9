//! The policy itself: how full, how large, how many.

use homeostat_core::{
    Bounds, Fraction, Millicores, Persist, Result as CoreResult, SimDuration, Snapshot,
};

use super::super::hpa::{Hpa, HpaConfig, HpaMetric, ScalingBehavior};
use super::super::vpa::{Vpa, VpaConfig};
use super::fill::{FillConfig, FillLevel};
use super::relief::{Relief, ReliefConfig};
use super::size::{SizeInputs, choose};
use crate::{Allocation, Error, Observation, Policy, Proposal, Reason, Result};

/// Settings of [`Joint`].
#[derive(Debug, Clone, PartialEq)]
pub struct JointConfig {
    /// How full replicas may be, where an objective is known.
    pub fill: FillConfig,
    /// How many more there are at once when the objective breaks; none if its figure tells
    /// nothing of a burst.
    pub relief: Option<ReliefConfig>,
    /// A fixed level of CPU use in whole percent, for those who want one: nothing is learnt.
    pub fixed_fill: Option<u32>,
    /// Whether there is an objective at all: without one the level stays where it begins.
    pub has_objective: bool,
    /// Further metrics of the number; the one that asks for the most wins.
    pub metrics: Vec<HpaMetric>,
    /// Fewest replicas.
    pub min_replicas: u32,
    /// Most replicas. No limit by default: the guardrails have one.
    pub max_replicas: u32,
    /// How fast the number may change.
    pub behavior: ScalingBehavior,
    /// Histories of use, of which the sizes are made.
    pub vpa: VpaConfig,
}

impl Default for JointConfig {
    /// The horizontal autoscaler's behaviour, but one minute of stabilisation instead of five:
    /// the objective tells when too many were taken away.
    fn default() -> Self {
        let mut behavior = ScalingBehavior::default();
        behavior.down.stabilization = SimDuration::from_secs(60);
        Self {
            fill: FillConfig::default(),
            relief: Some(ReliefConfig::default()),
            fixed_fill: None,
            has_objective: true,
            metrics: Vec::new(),
            min_replicas: 1,
            max_replicas: u32::MAX,
            behavior,
            vpa: VpaConfig::default(),
        }
    }
}

impl JointConfig {
    /// Refuses what makes no sense.
    pub fn build(self) -> Result<Joint> {
        self.fill.validate()?;
        self.relief.iter().try_for_each(ReliefConfig::validate)?;
        if self.fixed_fill == Some(0) {
            return Err(Error::setting("fixed_fill", "at least 1 percent", 0));
        }
        let fill = FillLevel::new(&self.fill);
        let target_percent = self.fixed_fill.unwrap_or(fill.percent());
        let mut metrics = vec![HpaMetric::CpuUtilization { target_percent }];
        metrics.extend(self.metrics.iter().copied());
        let (min_replicas, max_replicas) = (self.min_replicas, self.max_replicas);
        let behavior = self.behavior.clone();
        let hpa =
            HpaConfig { metrics, min_replicas, max_replicas, behavior, ..HpaConfig::default() };
        let hpa = hpa.build()?;
        let replicas = Bounds::try_new(min_replicas, max_replicas).expect("checked by the number");
        let relief = Relief::default();
        Ok(Joint { fill, relief, hpa, vpa: self.vpa.build()?, replicas, config: self })
    }
}

/// One decision for both dimensions.
#[derive(Debug, Clone, PartialEq)]
pub struct Joint {
    config: JointConfig,
    replicas: Bounds<u32>,
    fill: FillLevel,
    relief: Relief,
    hpa: Hpa,
    vpa: Vpa,
}

impl Joint {
    /// How full replicas may be now.
    pub fn fill(&self) -> Fraction {
        let level =
            self.config.fixed_fill.map_or(self.fill.level(), |percent| f64::from(percent) / 100.0);
        Fraction::from_ratio(level).expect("between the least and the most level")
    }

    fn percent(&self) -> u32 {
        self.config.fixed_fill.unwrap_or(self.fill.percent())
    }

    /// What the objective says: how full replicas may be, and whether more are needed at once.
    fn heed_objective(&mut self, obs: &Observation) -> (Vec<Reason>, Option<u32>) {
        // The number is computed with whole percent, so that is what people read.
        let fill = |percent| Reason::Fill { level: Fraction::from_percent(percent) };
        if !self.config.has_objective {
            return (vec![Reason::NoObjective, fill(self.percent())], None);
        }
        let Some(latency) = obs.latency else {
            return (vec![Reason::NoRequests, fill(self.percent())], None);
        };
        let part = latency.seconds() / obs.slo.threshold().seconds();
        let mut relief = None;
        // Without a figure of use nobody knows whether replicas are too full.
        if let Some(used) = obs.mean_cpu_use() {
            if self.config.fixed_fill.is_none() {
                self.fill.observe(&self.config.fill, obs, part, used);
                self.hpa.set_cpu_target(self.percent());
            }
            let used = used / self.fill().ratio();
            let config = self.config.relief.as_ref();
            relief = config.and_then(|config| self.relief.observe(config, obs, part, used));
        }
        let mut reasons = vec![Reason::Latency { latency, slo: obs.slo }, fill(self.percent())];
        let (least, why) = relief.unzip();
        reasons.extend(why);
        (reasons, least)
    }
}

impl Policy for Joint {
    fn name(&self) -> &str {
        "joint"
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let (mut reasons, at_once) = self.heed_objective(obs);
        self.vpa.observe(obs);
        let use_of_one = self.vpa.cpu_use();
        let inputs = SizeInputs {
            obs,
            use_of_one: use_of_one.as_ref(),
            fill: self.fill().ratio(),
            replicas: &self.replicas,
        };
        let (cpu_cores, why) = choose(&inputs);
        reasons.extend(why);
        let (memory_bytes, why) = self.vpa.memory_target(obs);
        reasons.extend(why);
        // The number is asked for replicas of the size that is about to be.
        let cpu = Millicores::from_cores(cpu_cores).unwrap_or(obs.allocation.cpu);
        let resized =
            Observation { allocation: Allocation { cpu, ..obs.allocation }, ..obs.clone() };
        let number = self.hpa.propose_at_least(&resized, at_once);
        reasons.extend(number.reasons);
        Proposal { replicas: number.replicas, cpu_cores, memory_bytes, reasons }
    }
}

impl Persist for Joint {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.fill.save(&format!("{name}/fill"), out);
        self.relief.save(&format!("{name}/relief"), out);
        self.hpa.save(&format!("{name}/hpa"), out);
        self.vpa.save(&format!("{name}/vpa"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.fill.load(&format!("{name}/fill"), from)?;
        self.relief.load(&format!("{name}/relief"), from)?;
        self.hpa.set_cpu_target(self.percent());
        self.hpa.load(&format!("{name}/hpa"), from)?;
        self.vpa.load(&format!("{name}/vpa"), from)
    }
}
