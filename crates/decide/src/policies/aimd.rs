//! Additive increase, multiplicative decrease, as TCP probes a link: a fixed amount more
//! whenever the SLO is violated, a part of everything less when it is met with ease.
//!
//! The increase is small and the decrease proportional, so that several such controllers on
//! one host move towards equal shares.

use homeostat_core::{Bytes, Fraction, Millicores, Persist, Result as CoreResult, Snapshot};

use crate::{Amount, Error, Observation, Policy, Proposal, Reason, Result};

/// Settings of [`Aimd`]. By default only the number of replicas moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AimdConfig {
    /// Replicas added at a miss; zero leaves their number alone.
    pub replica_increase: u32,
    /// CPU added at a miss; zero leaves it alone.
    pub cpu_increase: Millicores,
    /// Memory added at a miss; zero leaves it alone.
    pub memory_increase: Bytes,
    /// What is left of each dimension that moves after a decrease.
    pub decrease_factor: Fraction,
    /// Latency up to this part of the SLO is met with ease.
    pub comfortable: Fraction,
    /// Easy observations in a row before a decrease.
    pub calm_observations: u32,
}

impl Default for AimdConfig {
    /// One replica more, or 10 % fewer after three observations at half the SLO or
    /// better. A decrease to 50 %, as TCP's, would violate the SLO after each one.
    fn default() -> Self {
        Self {
            replica_increase: 1,
            cpu_increase: Millicores::ZERO,
            memory_increase: Bytes::ZERO,
            decrease_factor: Fraction::from_percent(90),
            comfortable: Fraction::from_percent(50),
            calm_observations: 3,
        }
    }
}

impl AimdConfig {
    /// Refuses settings under which nothing moves, or nothing comes down.
    pub fn build(self) -> Result<Aimd> {
        if self.replica_increase == 0
            && self.cpu_increase == Millicores::ZERO
            && self.memory_increase == Bytes::ZERO
        {
            return Err(Error::setting("increase", "above 0 in one dimension at least", 0));
        }
        let factor = self.decrease_factor;
        if factor == Fraction::ZERO || factor >= Fraction::ONE {
            return Err(Error::setting("decrease_factor", "above 0% and below 100%", factor));
        }
        if self.comfortable >= Fraction::ONE {
            return Err(Error::setting("comfortable", "below 100%", self.comfortable));
        }
        if self.calm_observations == 0 {
            return Err(Error::setting("calm_observations", "at least 1", 0));
        }
        Ok(Aimd { config: self, calm: 0 })
    }
}

/// Additive increase, multiplicative decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aimd {
    config: AimdConfig,
    /// Easy observations in a row.
    calm: u32,
}

impl Aimd {
    fn increase(&self, mut proposal: Proposal) -> Proposal {
        let AimdConfig { replica_increase, cpu_increase, memory_increase, .. } = self.config;
        if replica_increase > 0 {
            proposal.replicas += f64::from(replica_increase);
            let step = Amount::replicas(replica_increase);
            proposal.reasons.push(Reason::Increase { step });
        }
        if cpu_increase > Millicores::ZERO {
            proposal.cpu_cores += cpu_increase.cores();
            proposal.reasons.push(Reason::Increase { step: Amount::cpu(cpu_increase) });
        }
        if memory_increase > Bytes::ZERO {
            proposal.memory_bytes += memory_increase.bytes() as f64;
            proposal.reasons.push(Reason::Increase { step: Amount::memory(memory_increase) });
        }
        proposal
    }

    fn decrease(&self, mut proposal: Proposal) -> Proposal {
        let config = &self.config;
        let factor = config.decrease_factor;
        if config.replica_increase > 0 {
            // Rounded down, or few replicas would never become fewer; but the last one stays.
            let fewer = (proposal.replicas * factor.ratio()).floor().max(1.0);
            proposal.replicas = fewer.min(proposal.replicas);
        }
        if config.cpu_increase > Millicores::ZERO {
            proposal.cpu_cores *= factor.ratio();
        }
        if config.memory_increase > Bytes::ZERO {
            proposal.memory_bytes *= factor.ratio();
        }
        proposal.because(Reason::DecreaseTo { factor })
    }
}

impl Policy for Aimd {
    fn name(&self) -> &str {
        "aimd"
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let mut proposal = Proposal::keep(&obs.allocation);
        proposal.reasons.push(match obs.latency {
            Some(latency) => Reason::Latency { latency, slo: obs.slo },
            None => Reason::NoRequests,
        });
        let threshold = obs.slo.threshold().seconds();
        // Without requests there is no latency: it counts as zero.
        let latency = obs.latency.map_or(0.0, |latency| latency.seconds());
        if latency > threshold {
            self.calm = 0;
            return self.increase(proposal);
        }
        if latency > threshold * self.config.comfortable.ratio() {
            self.calm = 0;
            return proposal;
        }
        self.calm += 1;
        let needed = self.config.calm_observations;
        if self.calm < needed {
            return proposal.because(Reason::NotCalmYet { calm: self.calm, needed });
        }
        self.calm = 0;
        self.decrease(proposal)
    }
}

impl Persist for Aimd {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(name, [u64::from(self.calm)]);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.calm = from.u64s(name, 1)?[0] as u32;
        Ok(())
    }
}
