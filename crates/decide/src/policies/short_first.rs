//! Square-root staffing with CPU weights that favour short requests, without learning. `staffing`
//! is the first half alone.
//!
//! Weights inverse to the CPU time of a request are to processor sharing what shortest-job-first is
//! to a queue: when CPU is scarce, short requests finish early and long ones wait a little longer.
//! The rule must know the service time of every function and set the weights of all; a team of
//! agents has to learn them.

use homeostat_core::{Millicores, Persist, Result as CoreResult, Snapshot};

use crate::staffing::Staffing;
use crate::{Allocation, Error, Observation, Policy, Proposal, Result, ServiceTime, SetPoint};

/// Settings of [`ShortFirst`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShortFirstConfig {
    /// What a request takes alone; by default, the observed isolated latency, all of it CPU.
    pub service: Option<ServiceTime>,
    /// Replicas beyond the load, in square roots of it.
    pub spare: f64,
    /// Whether weights follow the CPU time; else every replica has one core's worth.
    pub is_weighted: bool,
}

impl Default for ShortFirstConfig {
    fn default() -> Self {
        Self { service: None, spare: 2.0, is_weighted: true }
    }
}

impl ShortFirstConfig {
    /// Staffing without weights.
    pub fn staffing() -> Self {
        Self { is_weighted: false, ..Self::default() }
    }

    /// Refuses a spare that makes no sense.
    pub fn build(self) -> Result<ShortFirst> {
        if !self.spare.is_finite() || self.spare < 0.0 {
            return Err(Error::setting("spare", "a finite number of 0 or more", self.spare));
        }
        Ok(ShortFirst { config: self, staffing: Staffing::new(3) })
    }
}

/// Short requests first.
#[derive(Debug, Clone, PartialEq)]
pub struct ShortFirst {
    config: ShortFirstConfig,
    staffing: Staffing,
}

/// A request of this CPU time has one core's worth: the range of weights then covers 50 to 800 ms.
const USUAL_CPU_S: f64 = 0.1;

impl Policy for ShortFirst {
    fn name(&self) -> &str {
        if self.config.is_weighted { "short-first" } else { "staffing" }
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let service = self.config.service.unwrap_or(ServiceTime {
            cpu: obs.isolated_latency,
            io: homeostat_core::SimDuration::ZERO,
        });
        let load = obs.arrivals_per_s * service.total().seconds();
        let (replicas, reasons) =
            self.staffing.replicas(load, self.config.spare, obs.allocation.replicas);
        let [least, .., most] = SetPoint::WEIGHTS;
        let part = if self.config.is_weighted {
            USUAL_CPU_S / service.cpu.seconds().max(f64::MIN_POSITIVE)
        } else {
            1.0
        };
        let weight = Millicores::new((1000.0 * part).min(1e6) as u64).clamp(least, most);
        let wanted = Allocation { cpu: weight, ..obs.allocation };
        Proposal { replicas, reasons, ..Proposal::keep(&wanted) }
    }
}

impl Persist for ShortFirst {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.staffing.save(&format!("{name}/needs"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.staffing.load(&format!("{name}/needs"), from)
    }
}
