//! The policies for containers with five resources, by name or from a file.

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_decide::{
    ContainerBounds, ContainerObservation, ContainerProposal, ContainerReason, ContainerScaling,
    LimitAimdConfig, PodRule, Policy, PolicyConfig, Propose,
};
use homeostat_lab::{Candidate, Error, Result};
use homeostat_rl::{LearnedLimits, Sampling};

use crate::NamedPolicies;

impl NamedPolicies for ContainerScaling {
    const KIND: &'static str = "simulation of containers";

    const NAMES: &'static [&'static str] = &["aimd", "hpa", "hpa+vpa", "vpa", "none", "random"];

    fn by_name(name: &str, rng: Stream) -> Result<Option<Box<dyn Policy<Self>>>> {
        Ok(Some(match name {
            "aimd" => Box::new(LimitAimdConfig::default().build()?),
            "hpa" | "hpa+vpa" | "vpa" => {
                Box::new(PodRule::new(PolicyConfig::by_name(name)?.build()?))
            }
            "none" => Box::new(ConstantLimits),
            "random" => Box::new(RandomLimits { rng }),
            _ => return Ok(None),
        }))
    }

    fn learned(
        learned: &Candidate,
        bounds: &ContainerBounds,
        sampling: Sampling,
        rng: Stream,
    ) -> Result<Box<dyn Policy<Self>>> {
        let Candidate { name, policy, .. } = learned;
        let limits = LearnedLimits::new(name, policy, *bounds, sampling, rng);
        Ok(Box::new(limits.map_err(|error| Error::BadPolicy {
            path: name.clone().into(),
            reason: error.to_string(),
        })?))
    }
}

/// Limits and replicas as they are.
struct ConstantLimits;

impl Policy<ContainerScaling> for ConstantLimits {
    fn name(&self) -> &str {
        "none"
    }

    fn propose(&mut self, obs: &ContainerObservation) -> ContainerProposal {
        let reasons = vec![ContainerReason::Constant];
        ContainerProposal { reasons, ..ContainerProposal::keep(&obs.setting) }
    }
}

impl Persist for ConstantLimits {
    fn save(&self, _name: &str, _out: &mut Snapshot) {}

    fn load(&mut self, _name: &str, _from: &Snapshot) -> homeostat_core::Result<()> {
        Ok(())
    }
}

/// Each limit a half, the same or twice as much, at random.
struct RandomLimits {
    rng: Stream,
}

impl Policy<ContainerScaling> for RandomLimits {
    fn name(&self) -> &str {
        "random"
    }

    fn propose(&mut self, obs: &ContainerObservation) -> ContainerProposal {
        let mut proposal = ContainerProposal::keep(&obs.setting);
        for limit in &mut proposal.limits {
            *limit *= [0.5, 1.0, 2.0][self.rng.below(3)];
        }
        proposal.reasons.push(ContainerReason::Random);
        proposal
    }
}

impl Persist for RandomLimits {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rng.save(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.rng.load(name, from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DomainPolicies;

    #[test]
    fn every_name_has_a_policy_and_another_is_answered_with_all() {
        for name in ContainerScaling::NAMES {
            DomainPolicies::parse::<ContainerScaling>(name, Sampling::Greedy).unwrap();
        }
        let error = DomainPolicies::parse::<ContainerScaling>("hpaa", Sampling::Greedy);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("aimd, hpa, hpa+vpa, vpa, none, random"), "{error}");
    }
}
