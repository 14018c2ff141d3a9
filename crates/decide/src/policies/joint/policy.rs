//! The policy itself: how full, how large, how many.

use homeostat_core::{
    Bounds, Fraction, Millicores, Persist, Result as CoreResult, SimDuration, Snapshot,
};

use super::super::hpa::{Hpa, HpaConfig, HpaMetric, ScalingBehavior};
use super::super::vpa::{Vpa, VpaConfig};
use super::burst_response::{BurstResponse, BurstResponseConfig};
use super::size::{SizeInputs, choose};
use super::target_utilization::{TargetUtilization, TargetUtilizationConfig};
use crate::{Error, Observation, Policy, Proposal, Reason, Result};

/// What the figure of the objective tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectiveKind {
    /// There is none: the level of use stays where it begins.
    None,
    /// How long requests take: it shows at once when replicas are too full.
    Latency,
    /// How many are answered. It falls when fewer come, too, and never exceeds what comes: only of
    /// replicas that are fuller than they may be does it tell anything, and no level is learnt.
    Throughput,
}

/// Settings of [`Joint`].
#[derive(Debug, Clone, PartialEq)]
pub struct JointConfig {
    /// How full replicas may be, where an objective is known.
    pub fill: TargetUtilizationConfig,
    /// How many more there are at once when a latency breaks.
    pub relief: BurstResponseConfig,
    /// A fixed level of CPU use in whole percent, for those who want one: nothing is learnt.
    pub fixed_fill: Option<u32>,
    /// What the objective is.
    pub objective: ObjectiveKind,
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
            fill: TargetUtilizationConfig::default(),
            relief: BurstResponseConfig::default(),
            fixed_fill: None,
            objective: ObjectiveKind::Latency,
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
        self.relief.validate()?;
        if self.fixed_fill == Some(0) {
            return Err(Error::setting("fixed_fill", "at least 1 percent", 0));
        }
        let fill = TargetUtilization::new(&self.fill);
        let target_percent = self.fixed_fill.unwrap_or(fill.percent());
        let mut metrics = vec![HpaMetric::CpuUtilization { target_percent }];
        metrics.extend(self.metrics.iter().copied());
        let (min_replicas, max_replicas) = (self.min_replicas, self.max_replicas);
        let behavior = self.behavior.clone();
        let hpa =
            HpaConfig { metrics, min_replicas, max_replicas, behavior, ..HpaConfig::default() };
        let hpa = hpa.build()?;
        let replicas = Bounds::try_new(min_replicas, max_replicas).expect("checked by the number");
        let relief = BurstResponse::default();
        Ok(Joint { fill, relief, hpa, vpa: self.vpa.build()?, replicas, config: self })
    }
}

/// One decision for both dimensions.
#[derive(Debug, Clone, PartialEq)]
pub struct Joint {
    config: JointConfig,
    replicas: Bounds<u32>,
    fill: TargetUtilization,
    relief: BurstResponse,
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
    fn heed_objective(&mut self, obs: &Observation) -> Heeded {
        // The number of replicas is computed with whole percent, so the reason shows whole percent.
        let fill = |percent| Reason::TargetUtilization { level: Fraction::from_percent(percent) };
        let unheard = |reason, percent| Heeded {
            reasons: vec![reason, fill(percent)],
            at_once: None,
            is_broken: false,
        };
        let objective = self.config.objective;
        if objective == ObjectiveKind::None {
            return unheard(Reason::NoObjective, self.percent());
        }
        let Some(latency) = obs.latency else {
            return unheard(Reason::NoRequests, self.percent());
        };
        let part = latency.seconds() / obs.slo.threshold().seconds();
        let mut is_broken = part > 1.0;
        let mut relief = None;
        // Without a measurement, the utilisation of replicas is unknown.
        if let Some(used) = obs.mean_cpu_use() {
            if objective == ObjectiveKind::Latency {
                if self.config.fixed_fill.is_none() {
                    self.fill.observe(&self.config.fill, obs, part, used);
                    self.hpa.set_cpu_target(self.percent());
                }
                let used = used / self.fill().ratio();
                relief = self.relief.observe(&self.config.relief, obs, part, used);
            } else {
                is_broken &= used > self.fill().ratio();
            }
        }
        let mut reasons = vec![Reason::Latency { latency, slo: obs.slo }, fill(self.percent())];
        let (at_once, why) = relief.unzip();
        reasons.extend(why);
        Heeded { reasons, at_once, is_broken }
    }
}

/// What the objective says of one look.
struct Heeded {
    reasons: Vec<Reason>,
    /// Replicas that are needed at once.
    at_once: Option<u32>,
    /// Whether it is broken, and replicas may be why.
    is_broken: bool,
}

impl Policy for Joint {
    fn name(&self) -> &str {
        "joint"
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let Heeded { mut reasons, at_once, is_broken } = self.heed_objective(obs);
        self.vpa.observe(obs);
        let use_of_one = self.vpa.cpu_use();
        let inputs = SizeInputs {
            obs,
            use_of_one: use_of_one.as_ref(),
            fill: self.fill().ratio(),
            replicas: &self.replicas,
            is_broken,
            has_objective: self.config.objective != ObjectiveKind::None,
        };
        let (cpu_cores, why) = choose(&inputs);
        reasons.extend(why);
        let (mut memory_bytes, why) = self.vpa.memory_target(obs);
        reasons.extend(why);
        let present = &obs.allocation;
        let mut least = at_once;
        // Whatever is to blame, what is too slow is not made smaller.
        if is_broken {
            least = least.max(Some(present.replicas));
            memory_bytes = memory_bytes.max(present.memory.bytes() as f64);
        }
        let cpu = Millicores::from_cores(cpu_cores).unwrap_or(present.cpu);
        let number = self.hpa.propose_at_least(&sized_for_the_number(obs, cpu), least);
        let asked = number.reasons.iter().filter_map(Reason::replicas_asked_for).max();
        reasons.extend(number.reasons);
        if is_broken && asked.is_some_and(|asked| asked < present.replicas) {
            reasons.push(Reason::NotWhileBroken);
        }
        Proposal { replicas: number.replicas, cpu_cores, memory_bytes, reasons }
    }
}

/// What the number is asked for: replicas of the size that is about to be, if that is smaller. A
/// larger one, and a first one, counts where it is there already. It may come slowly, or never
/// where nobody may change sizes, and until then fewer replicas would be too few.
fn sized_for_the_number(obs: &Observation, about_to_be: Millicores) -> Observation {
    let mut sized = obs.clone();
    sized.allocation.cpu = obs.allocation.cpu.min(about_to_be);
    for replica in &mut sized.replicas {
        replica.cpu_request = replica.cpu_request.map(|own| own.min(about_to_be));
    }
    sized
}

impl Persist for Joint {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.fill.save(&format!("{name}/fill"), out);
        self.relief.save(&format!("{name}/relief"), out);
        self.hpa.save(&format!("{name}/hpa"), out);
        self.vpa.save(&format!("{name}/vpa"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        // Without an SLO, nothing would ever move a level that was learned with another one.
        if self.config.objective == ObjectiveKind::Latency {
            self.fill.load(&format!("{name}/fill"), from)?;
        }
        self.relief.load(&format!("{name}/relief"), from)?;
        self.hpa.set_cpu_target(self.percent());
        self.hpa.load(&format!("{name}/hpa"), from)?;
        self.vpa.load(&format!("{name}/vpa"), from)
    }
}
