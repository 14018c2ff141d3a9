//! ENSURE (Suresh et al., ACSOS 2020), the threshold-based baseline of the dissertation's
//! Chapter 4: enough containers for the load with a square root to spare, and more CPU when
//! latency degrades over that of the function alone.
//!
//! What the dissertation says of it: `R + c * sqrt(R)` containers for a load R, resources
//! scaled by a latency degradation threshold of 15 % (25 % as "ENSURE-Util"), servers by a
//! memory threshold. What it leaves open, and what is chosen here:
//!
//! - R is arrivals times the service time of a request alone, the mean number in service if
//!   no request waits. An observation knows that time at the SLO's percentile only, which
//!   is used unless a service time is given, and errs on the side of more containers.
//! - `c` is 2. By the Halfin-Whitt formula 2.7 % of requests then find no free container.
//! - CPU moves by 128 shares, the step of the other agents there.
//! - Latency within half the threshold is comfortable. CPU goes down after three comfortable
//!   observations in a row, and containers to the largest need of the last three: a single
//!   quiet window proves nothing.
//! - Memory stays, and so do servers: they are not part of an allocation.

use homeostat_core::{Fraction, Millicores, Persist, Result as CoreResult, SimDuration, Snapshot};

use crate::staffing::Staffing;
use crate::{Amount, Error, Observation, Policy, Proposal, Reason, Result, ScalingAction};

/// Settings of [`Ensure`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnsureConfig {
    /// Largest tolerated part above the isolated latency.
    pub threshold: Fraction,
    /// Part of the threshold within which latency is comfortable.
    pub comfortable: Fraction,
    /// The `c` of `R + c * sqrt(R)`.
    pub spare: f64,
    /// Service time of a request alone; by default, the observed isolated latency.
    pub service_time: Option<SimDuration>,
    /// Step of CPU.
    pub cpu_step: Millicores,
    /// Comfortable observations before anything is taken away.
    pub calm_observations: u32,
}

impl Default for EnsureConfig {
    fn default() -> Self {
        Self {
            threshold: Fraction::from_percent(15),
            comfortable: Fraction::from_percent(50),
            spare: 2.0,
            service_time: None,
            cpu_step: ScalingAction::CPU_STEP,
            calm_observations: 3,
        }
    }
}

impl EnsureConfig {
    /// "ENSURE-Util" of Section 4.5.1: a threshold of 25 %, for higher utilisation.
    pub fn util() -> Self {
        Self { threshold: Fraction::from_percent(25), ..Self::default() }
    }

    /// Refuses thresholds and steps that could not work.
    pub fn build(self) -> Result<Ensure> {
        Error::unless_positive("threshold", self.threshold.ratio())?;
        if self.comfortable > Fraction::ONE {
            return Err(Error::setting("comfortable", "at most 100%", self.comfortable));
        }
        if !self.spare.is_finite() || self.spare < 0.0 {
            return Err(Error::setting("spare", "a finite number of 0 or more", self.spare));
        }
        if self.service_time == Some(SimDuration::ZERO) {
            return Err(Error::setting("service_time", "above 0", SimDuration::ZERO));
        }
        if self.cpu_step == Millicores::ZERO {
            return Err(Error::setting("cpu_step", "above 0", self.cpu_step));
        }
        if self.calm_observations == 0 {
            return Err(Error::setting("calm_observations", "at least 1", 0));
        }
        Ok(Ensure { config: self, staffing: Staffing::new(self.calm_observations), calm: 0 })
    }
}

/// The ENSURE autoscaler. It changes the number of replicas and their CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Ensure {
    config: EnsureConfig,
    staffing: Staffing,
    /// Comfortable observations in a row.
    calm: u32,
}

impl Ensure {
    fn staff(&mut self, obs: &Observation) -> (f64, Vec<Reason>) {
        let service_time = self.config.service_time.unwrap_or(obs.isolated_latency);
        let load = obs.arrivals_per_s * service_time.seconds();
        self.staffing.replicas(load, self.config.spare, obs.allocation.replicas)
    }

    fn resize(&mut self, obs: &Observation) -> (f64, Vec<Reason>) {
        let cores = obs.allocation.cpu.cores();
        let config = &self.config;
        let Some(latency) = obs.latency else { return (cores, vec![Reason::NoRequests]) };
        let isolated = obs.isolated_latency;
        let mut reasons =
            vec![Reason::Degradation { latency, isolated, threshold: config.threshold }];
        let degradation = latency.seconds() / isolated.seconds().max(f64::MIN_POSITIVE) - 1.0;
        let step = Amount::cpu(config.cpu_step);
        if degradation > config.threshold.ratio() {
            self.calm = 0;
            reasons.push(Reason::Increase { step });
            return (cores + config.cpu_step.cores(), reasons);
        }
        if degradation > config.threshold.ratio() * config.comfortable.ratio() {
            self.calm = 0;
            return (cores, reasons);
        }
        self.calm += 1;
        let needed = config.calm_observations;
        if self.calm < needed {
            reasons.push(Reason::NotCalmYet { calm: self.calm, needed });
            return (cores, reasons);
        }
        // Each step has to prove itself before the next.
        self.calm = 0;
        if cores <= config.cpu_step.cores() {
            return (cores, reasons);
        }
        reasons.push(Reason::Decrease { step });
        (cores - config.cpu_step.cores(), reasons)
    }
}

impl Policy for Ensure {
    fn name(&self) -> &str {
        if self.config.threshold == EnsureConfig::util().threshold {
            "ensure-util"
        } else {
            "ensure"
        }
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let (replicas, mut reasons) = self.staff(obs);
        let (cpu_cores, vertical) = self.resize(obs);
        reasons.extend(vertical);
        Proposal { replicas, cpu_cores, reasons, ..Proposal::keep(&obs.allocation) }
    }
}

impl Persist for Ensure {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.staffing.save(&format!("{name}/needs"), out);
        out.put_u64(&format!("{name}/calm"), [u64::from(self.calm)]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.staffing.load(&format!("{name}/needs"), from)?;
        self.calm = from.u64s(&format!("{name}/calm"), 1)?[0] as u32;
        Ok(())
    }
}
