//! The policies of control domains other than pods, by name or from a file.

use std::path::Path;

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_decide::{
    ClockProposal, ClockReason, Domain, GpuClock, GpuObservation, Policy, Propose,
};
use homeostat_lab::{Candidate, Error, Result, load_candidates, nearest};
use homeostat_muserve::govern::{MiadConfig, StepDown};
use homeostat_rl::Sampling;

use crate::controllers::of_agent;

/// A control domain with policies that can be chosen by name.
pub trait NamedPolicies: Domain {
    /// What a simulation of it is called in `run.json`.
    const KIND: &'static str;

    /// The names of its policies.
    const NAMES: &'static [&'static str];

    /// The policy of this name; none if there is none. Its random numbers come from `rng`.
    fn by_name(name: &str, rng: Stream) -> Result<Option<Box<dyn Policy<Self>>>>;

    /// A learned policy for a target with these bounds. Refuses one of another domain.
    fn learned(
        learned: &Candidate,
        _bounds: &Self::Bounds,
        _sampling: Sampling,
        _rng: Stream,
    ) -> Result<Box<dyn Policy<Self>>> {
        Err(Error::BadPolicy {
            path: learned.name.clone().into(),
            reason: format!("learned policies are not served to a {}", Self::KIND),
        })
    }
}

/// The policies of all targets of a simulation.
#[derive(Debug, Clone)]
pub enum DomainPolicies {
    /// A heuristic by name.
    Named(String),
    /// Policies that were learnt: target k has that of agent k, around again if there are more targets
    /// than policies.
    Learned {
        /// The file or run directory.
        file: String,
        /// The policies.
        candidates: Vec<Candidate>,
        /// Most probable actions or draws.
        sampling: Sampling,
    },
}

impl DomainPolicies {
    /// A name, a run directory or a policy file; an error with all names for anything else.
    pub fn parse<D: NamedPolicies>(text: &str, sampling: Sampling) -> Result<Self> {
        let path = Path::new(text);
        if D::NAMES.contains(&text) || !path.exists() {
            policy_of::<D>(text, Stream::from_seed(0))?;
            return Ok(Self::Named(text.to_owned()));
        }
        Ok(Self::Learned { file: text.to_owned(), candidates: load_candidates(path)?, sampling })
    }

    /// The name in tables.
    pub fn name(&self) -> String {
        match self {
            Self::Named(name) => name.clone(),
            Self::Learned { file, .. } => {
                let stem = Path::new(file).file_stem();
                stem.map_or_else(|| file.clone(), |stem| stem.to_string_lossy().into_owned())
            }
        }
    }

    /// The file or run directory of policies that were learnt.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::Named(_) => None,
            Self::Learned { file, .. } => Some(Path::new(file)),
        }
    }

    /// The policy of a target.
    pub(crate) fn build<D: NamedPolicies>(
        &self,
        target: usize,
        bounds: &D::Bounds,
        rng: Stream,
    ) -> Result<Box<dyn Policy<D>>> {
        match self {
            Self::Named(name) => policy_of(name, rng),
            Self::Learned { candidates, sampling, .. } => {
                D::learned(of_agent(candidates, target)?, bounds, *sampling, rng)
            }
        }
    }
}

/// The policy of this name, or an error with all names.
fn policy_of<D: NamedPolicies>(name: &str, rng: Stream) -> Result<Box<dyn Policy<D>>> {
    D::by_name(name, rng)?.ok_or_else(|| Error::OutOfRange {
        key: "policy".to_owned(),
        value: name.to_owned(),
        source_text: "flag --policy".to_owned(),
        expected: format!(
            "a policy file, a run directory, or one of {}{}",
            D::NAMES.join(", "),
            nearest(name, D::NAMES.iter().copied())
        ),
    })
}

/// Governors of clocks.
impl NamedPolicies for GpuClock {
    const KIND: &'static str = "simulation of GPU clocks";

    const NAMES: &'static [&'static str] = &["miad", "miad-printed", "none", "random"];

    fn by_name(name: &str, rng: Stream) -> Result<Option<Box<dyn Policy<Self>>>> {
        let miad = |step_down| {
            let config = MiadConfig { step_down, ..MiadConfig::default() };
            config.build().map_err(|error| Error::OutOfRange {
                key: "policy".to_owned(),
                value: name.to_owned(),
                source_text: "flag --policy".to_owned(),
                expected: error.to_string(),
            })
        };
        Ok(Some(match name {
            "miad" => Box::new(miad(StepDown::Every)?),
            "miad-printed" => Box::new(miad(StepDown::Any)?),
            "none" => Box::new(KeptClock),
            "random" => Box::new(RandomClock { rng }),
            _ => return Ok(None),
        }))
    }
}

/// The clock as it is: the highest, with which every simulation begins.
struct KeptClock;

impl Policy<GpuClock> for KeptClock {
    fn name(&self) -> &str {
        "none"
    }

    fn propose(&mut self, obs: &GpuObservation) -> ClockProposal {
        ClockProposal { reasons: vec![ClockReason::Constant], ..ClockProposal::keep(&obs.clock) }
    }
}

impl Persist for KeptClock {
    fn save(&self, _name: &str, _out: &mut Snapshot) {}

    fn load(&mut self, _name: &str, _from: &Snapshot) -> homeostat_core::Result<()> {
        Ok(())
    }
}

/// A step down, the same clock, or twice the clock, at random.
struct RandomClock {
    rng: Stream,
}

impl Policy<GpuClock> for RandomClock {
    fn name(&self) -> &str {
        "random"
    }

    fn propose(&mut self, obs: &GpuObservation) -> ClockProposal {
        let clock = f64::from(obs.clock.0);
        let step = MiadConfig::default().step;
        let mhz = [(clock - step).max(0.0), clock, 2.0 * clock][self.rng.below(3)];
        ClockProposal { mhz, reasons: vec![ClockReason::Random] }
    }
}

impl Persist for RandomClock {
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

    #[test]
    fn every_name_has_a_policy_and_another_is_answered_with_all() {
        for name in GpuClock::NAMES {
            assert!(policy_of::<GpuClock>(name, Stream::from_seed(1)).is_ok(), "{name}");
        }
        let error = policy_of::<GpuClock>("maid", Stream::from_seed(1)).err().unwrap().to_string();
        assert!(error.contains("miad, miad-printed, none, random"), "{error}");
    }
}
