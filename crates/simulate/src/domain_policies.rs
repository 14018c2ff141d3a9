//! The policies of control domains other than pods, by name.

use homeostat_core::{Persist, Snapshot, Stream};
use homeostat_decide::{
    ClockProposal, ClockReason, Domain, GpuClock, GpuObservation, Policy, Propose,
};
use homeostat_lab::{Error, Result, nearest};
use homeostat_muserve::govern::{MiadConfig, StepDown};

/// A control domain with policies that can be chosen by name.
pub trait NamedPolicies: Domain {
    /// What a simulation of it is called in `run.json`.
    const KIND: &'static str;

    /// The names of its policies.
    const NAMES: &'static [&'static str];

    /// The policy of this name; none if there is none. Its random numbers come from `rng`.
    fn by_name(name: &str, rng: Stream) -> Result<Option<Box<dyn Policy<Self>>>>;
}

/// The policy of this name, or an error with all names.
pub(crate) fn policy_of<D: NamedPolicies>(name: &str, rng: Stream) -> Result<Box<dyn Policy<D>>> {
    D::by_name(name, rng)?.ok_or_else(|| Error::OutOfRange {
        key: "policy".to_owned(),
        value: name.to_owned(),
        source_text: "flag --policy".to_owned(),
        expected: format!(
            "one of {}{}",
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
