//! The policy itself: utilisation target, size, number.

use homeostat_core::{
    Bounds, Fraction, Millicores, Persist, Result as CoreResult, SimDuration, Snapshot,
};

use super::super::hpa::{Hpa, HpaConfig, HpaMetric, ScalingBehavior};
use super::super::vpa::{Vpa, VpaConfig};
use super::burst_response::{BurstResponse, BurstResponseConfig};
use super::size::{SizeInputs, choose};
use super::target_utilization::{TargetUtilization, TargetUtilizationConfig};
use crate::{Error, Observation, Policy, Proposal, Reason, Result};

/// What the SLO limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SloKind {
    /// There is no SLO: the utilisation target stays where it begins.
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
    /// The learned utilisation target, where there is an SLO.
    pub target_utilization: TargetUtilizationConfig,
    /// How many replicas are added at once when a latency SLO becomes violated.
    pub burst_response: BurstResponseConfig,
    /// A fixed utilisation target in whole percent; none to learn it.
    pub fixed_target_utilization: Option<u32>,
    /// What the SLO is.
    pub slo: SloKind,
    /// Further metrics of the number; the one that asks for the most wins.
    pub metrics: Vec<HpaMetric>,
    /// Fewest replicas.
    pub min_replicas: u32,
    /// Most replicas. No limit by default: the guards have one.
    pub max_replicas: u32,
    /// How fast the number may change.
    pub behavior: ScalingBehavior,
    /// Histories of use, of which the sizes are made.
    pub vpa: VpaConfig,
}

impl Default for JointConfig {
    /// The horizontal autoscaler's behaviour, but one minute of stabilisation instead of five:
    /// the SLO tells when too many were taken away.
    fn default() -> Self {
        let mut behavior = ScalingBehavior::default();
        behavior.down.stabilization = SimDuration::from_secs(60);
        Self {
            target_utilization: TargetUtilizationConfig::default(),
            burst_response: BurstResponseConfig::default(),
            fixed_target_utilization: None,
            slo: SloKind::Latency,
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
        self.target_utilization.validate()?;
        self.burst_response.validate()?;
        if self.fixed_target_utilization == Some(0) {
            return Err(Error::setting("fixed_target_utilization", "at least 1 percent", 0));
        }
        let target_utilization = TargetUtilization::new(&self.target_utilization);
        let target_percent = self.fixed_target_utilization.unwrap_or(target_utilization.percent());
        let mut metrics = vec![HpaMetric::CpuUtilization { target_percent }];
        metrics.extend(self.metrics.iter().copied());
        let (min_replicas, max_replicas) = (self.min_replicas, self.max_replicas);
        let behavior = self.behavior.clone();
        let hpa =
            HpaConfig { metrics, min_replicas, max_replicas, behavior, ..HpaConfig::default() };
        let hpa = hpa.build()?;
        let replicas = Bounds::try_new(min_replicas, max_replicas).expect("checked by the number");
        let burst_response = BurstResponse::default();
        Ok(Joint {
            target_utilization,
            burst_response,
            hpa,
            vpa: self.vpa.build()?,
            replicas,
            config: self,
        })
    }
}

/// One decision for both dimensions.
#[derive(Debug, Clone, PartialEq)]
pub struct Joint {
    config: JointConfig,
    replicas: Bounds<u32>,
    target_utilization: TargetUtilization,
    burst_response: BurstResponse,
    hpa: Hpa,
    vpa: Vpa,
}

impl Joint {
    /// The present utilisation target.
    pub fn target_utilization(&self) -> Fraction {
        let level = self
            .config
            .fixed_target_utilization
            .map_or(self.target_utilization.level(), |percent| f64::from(percent) / 100.0);
        Fraction::from_ratio(level).expect("between the least and the most level")
    }

    fn percent(&self) -> u32 {
        self.config.fixed_target_utilization.unwrap_or(self.target_utilization.percent())
    }

    /// The utilisation target that follows from the SLO, and whether more replicas are needed at once.
    fn read_slo(&mut self, obs: &Observation) -> SloReading {
        // The number of replicas is computed with whole percent, so the reason shows whole percent.
        let target_utilization =
            |percent| Reason::TargetUtilization { level: Fraction::from_percent(percent) };
        let unknown = |reason, percent| SloReading {
            reasons: vec![reason, target_utilization(percent)],
            at_once: None,
            is_violated: false,
        };
        let slo = self.config.slo;
        if slo == SloKind::None {
            return unknown(Reason::NoSlo, self.percent());
        }
        let Some(latency) = obs.latency else {
            return unknown(Reason::NoRequests, self.percent());
        };
        let part = latency.seconds() / obs.slo.threshold().seconds();
        let mut is_violated = part > 1.0;
        let mut burst_response = None;
        // Without a measurement, the utilisation of replicas is unknown.
        if let Some(used) = obs.mean_cpu_use() {
            if slo == SloKind::Latency {
                if self.config.fixed_target_utilization.is_none() {
                    self.target_utilization.observe(
                        &self.config.target_utilization,
                        obs,
                        part,
                        used,
                    );
                    self.hpa.set_cpu_target(self.percent());
                }
                let used = used / self.target_utilization().ratio();
                burst_response =
                    self.burst_response.observe(&self.config.burst_response, obs, part, used);
            } else {
                is_violated &= used > self.target_utilization().ratio();
            }
        }
        let mut reasons =
            vec![Reason::Latency { latency, slo: obs.slo }, target_utilization(self.percent())];
        let (at_once, why) = burst_response.unzip();
        reasons.extend(why);
        SloReading { reasons, at_once, is_violated }
    }
}

/// What follows from the SLO at one observation.
struct SloReading {
    reasons: Vec<Reason>,
    /// Replicas that are needed at once.
    at_once: Option<u32>,
    /// Whether it is violated, and the replicas may be the cause.
    is_violated: bool,
}

impl Policy for Joint {
    fn name(&self) -> &str {
        "joint"
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let SloReading { mut reasons, at_once, is_violated } = self.read_slo(obs);
        self.vpa.observe(obs);
        let use_of_one = self.vpa.cpu_use();
        let inputs = SizeInputs {
            obs,
            use_of_one: use_of_one.as_ref(),
            target_utilization: self.target_utilization().ratio(),
            replicas: &self.replicas,
            is_violated,
            has_slo: self.config.slo != SloKind::None,
        };
        let (cpu_cores, why) = choose(&inputs);
        reasons.extend(why);
        let (mut memory_bytes, why) = self.vpa.memory_target(obs);
        reasons.extend(why);
        let present = &obs.allocation;
        let mut least = at_once;
        // Whatever the cause, nothing is scaled down while the SLO is violated.
        if is_violated {
            least = least.max(Some(present.replicas));
            memory_bytes = memory_bytes.max(present.memory.bytes() as f64);
        }
        let cpu = Millicores::from_cores(cpu_cores).unwrap_or(present.cpu);
        let number = self.hpa.propose_at_least(&sized_for_the_number(obs, cpu), least);
        let asked = number.reasons.iter().filter_map(Reason::replicas_asked_for).max();
        reasons.extend(number.reasons);
        if is_violated && asked.is_some_and(|asked| asked < present.replicas) {
            reasons.push(Reason::NotWhileViolated);
        }
        Proposal { replicas: number.replicas, cpu_cores, memory_bytes, reasons }
    }
}

/// What the number is asked for: replicas of the size that is about to be, if that is smaller. A
/// larger one, and a first one, counts where replicas have it already. It may come slowly, or never
/// where sizes must not change, and until then fewer replicas would be too few.
fn sized_for_the_number(obs: &Observation, about_to_be: Millicores) -> Observation {
    let mut sized = obs.clone();
    sized.allocation.cpu = obs.allocation.cpu.min(about_to_be);
    for replica in &mut sized.replicas {
        replica.cpu_request = replica.cpu_request.map(|own| own.min(about_to_be));
    }
    sized
}

/// The arrays have the names of earlier checkpoints.
impl Persist for Joint {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.target_utilization.save(&format!("{name}/fill"), out);
        self.burst_response.save(&format!("{name}/relief"), out);
        self.hpa.save(&format!("{name}/hpa"), out);
        self.vpa.save(&format!("{name}/vpa"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        // Without an SLO, nothing would ever move a level that was learned with another one.
        if self.config.slo == SloKind::Latency {
            self.target_utilization.load(&format!("{name}/fill"), from)?;
        }
        self.burst_response.load(&format!("{name}/relief"), from)?;
        self.hpa.set_cpu_target(self.percent());
        self.hpa.load(&format!("{name}/hpa"), from)?;
        self.vpa.load(&format!("{name}/vpa"), from)
    }
}
