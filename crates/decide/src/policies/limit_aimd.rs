//! Additive increase, multiplicative decrease of the five limits of a container: the rival that FIRM is
//! compared with (dissertation, 3.3.1), as controls of shared resources use it.

use homeostat_core::{Persist, Result as CoreResult, Snapshot};

use crate::{
    ContainerObservation, ContainerProposal, ContainerReason, ContainerResource, ContainerScaling,
    Error, Policy, Propose, Result, SloStatus,
};

/// Settings of [`LimitAimd`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitAimdConfig {
    /// What a limit gains in a window that violates the SLO, over the limit of the first window.
    pub increase: f64,
    /// What is left of every limit after a decrease.
    pub decrease_factor: f64,
    /// Windows in a row that meet the SLO before a decrease.
    pub calm_windows: u32,
    /// Only limits of which at least this part is used grow; zero for all.
    pub min_utilization: f64,
}

impl Default for LimitAimdConfig {
    /// Of a sweep over simulated applications: larger steps and slower decreases gain little and cost CPU, and
    /// limits that all grow, used or not, cost four times as much of it for an eighth fewer violations.
    fn default() -> Self {
        Self { increase: 1.0, decrease_factor: 0.98, calm_windows: 10, min_utilization: 0.5 }
    }
}

impl LimitAimdConfig {
    /// Refuses settings under which nothing moves, or nothing comes down.
    pub fn build(self) -> Result<LimitAimd> {
        Error::unless_positive("increase", self.increase)?;
        if !(self.decrease_factor > 0.0 && self.decrease_factor < 1.0) {
            return Err(Error::setting(
                "decrease_factor",
                "above 0 and below 1",
                self.decrease_factor,
            ));
        }
        if self.calm_windows == 0 {
            return Err(Error::setting("calm_windows", "at least 1", 0));
        }
        if !(0.0..=1.0).contains(&self.min_utilization) {
            return Err(Error::setting("min_utilization", "from 0 to 1", self.min_utilization));
        }
        Ok(LimitAimd { config: self, first: None, calm: 0 })
    }
}

/// Additive increase, multiplicative decrease of limits. The number of replicas stays.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitAimd {
    config: LimitAimdConfig,
    /// The limits of the first window.
    first: Option<[u64; 5]>,
    /// Windows in a row that met the SLO.
    calm: u32,
}

impl Policy<ContainerScaling> for LimitAimd {
    fn name(&self) -> &str {
        "aimd"
    }

    fn propose(&mut self, obs: &ContainerObservation) -> ContainerProposal {
        let first = *self.first.get_or_insert(obs.setting.limits);
        let mut proposal = ContainerProposal::keep(&obs.setting);
        if obs.slo_status == SloStatus::Violated {
            self.calm = 0;
            for (resource, used) in ContainerResource::ALL.into_iter().zip(obs.utilization()) {
                let index = resource.index();
                if used >= self.config.min_utilization {
                    proposal.limits[index] += self.config.increase * first[index] as f64;
                    proposal.reasons.push(ContainerReason::Increase(resource));
                }
            }
            if proposal.reasons.is_empty() {
                proposal.reasons.push(ContainerReason::NothingScarce);
            }
            return proposal;
        }
        self.calm += 1;
        let (calm, needed) = (self.calm, self.config.calm_windows);
        if calm < needed {
            proposal.reasons.push(ContainerReason::NotCalmYet { calm, needed });
            return proposal;
        }
        self.calm = 0;
        let factor = self.config.decrease_factor;
        proposal.limits.iter_mut().for_each(|limit| *limit *= factor);
        proposal.reasons.push(ContainerReason::Decrease { factor });
        proposal
    }
}

impl Persist for LimitAimd {
    fn save(&self, name: &str, out: &mut Snapshot) {
        out.put_u64(&format!("{name}/calm"), [u64::from(self.calm)]);
        let first: Vec<u64> = self.first.into_iter().flatten().collect();
        out.put_u64(&format!("{name}/first"), first);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.calm = from.u64s(&format!("{name}/calm"), 1)?[0] as u32;
        self.first = <[u64; 5]>::try_from(from.any_u64s(&format!("{name}/first"))?).ok();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::{SimDuration, SimTime};

    use super::*;
    use crate::ContainerLimits;

    fn seen(limits: [u64; 5], status: SloStatus) -> ContainerObservation {
        let setting = ContainerLimits { replicas: 2, limits };
        let window = SimDuration::from_secs(1);
        let mut obs = ContainerObservation::new(SimTime::ZERO, window, setting);
        obs.slo_status = status;
        // Nearly all of CPU, a tenth of the rest.
        obs.usage = std::array::from_fn(|index| {
            2.0 * limits[index] as f64 * if index == 0 { 0.9 } else { 0.1 }
        });
        obs
    }

    #[test]
    fn the_scarce_resource_grows_by_a_constant_and_all_shrink_by_a_factor() {
        let config = LimitAimdConfig {
            increase: 0.5,
            decrease_factor: 0.8,
            calm_windows: 2,
            min_utilization: 0.5,
        };
        let mut aimd = config.build().unwrap();
        let proposal = aimd.propose(&seen([1000; 5], SloStatus::Violated));
        assert_eq!(proposal.limits, [1500.0, 1000.0, 1000.0, 1000.0, 1000.0]);
        let proposal = aimd.propose(&seen([1500, 10, 10, 10, 10], SloStatus::Violated));
        assert_eq!(proposal.limits[0], 2000.0, "by a part of the first limit, not of the present");
        let proposal = aimd.propose(&seen([2000; 5], SloStatus::Met));
        assert_eq!(proposal.limits, [2000.0; 5]);
        let proposal = aimd.propose(&seen([2000; 5], SloStatus::Met));
        assert_eq!((proposal.limits, proposal.replicas), ([1600.0; 5], 2.0));
        let all = LimitAimdConfig { min_utilization: 0.0, ..config };
        let proposal = all.build().unwrap().propose(&seen([1000; 5], SloStatus::Violated));
        assert_eq!(proposal.limits, [1500.0; 5]);
    }

    #[test]
    fn its_state_is_saved_and_settings_without_effect_are_refused() {
        let mut aimd = LimitAimdConfig::default().build().unwrap();
        aimd.propose(&seen([1000; 5], SloStatus::Met));
        let mut snapshot = Snapshot::default();
        aimd.save("aimd", &mut snapshot);
        let mut restored = LimitAimdConfig::default().build().unwrap();
        restored.load("aimd", &snapshot).unwrap();
        assert_eq!(restored, aimd);
        let refused = |config: LimitAimdConfig| config.build().unwrap_err().to_string();
        let default = LimitAimdConfig::default();
        assert!(refused(LimitAimdConfig { increase: 0.0, ..default }).contains("increase"));
        assert!(refused(LimitAimdConfig { decrease_factor: 1.0, ..default }).contains("factor"));
    }
}
