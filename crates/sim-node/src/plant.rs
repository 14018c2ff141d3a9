//! The plant that learned controllers of core frequencies act on.

use std::convert::Infallible;

use homeostat_core::{SeedTree, SimDuration};
use homeostat_decide::{CpuFrequency, CpuObservation, Decision, Kilohertz, Plant};

use crate::{Machine, NodeConfig, NodePlan, Result};

/// Time between two decisions (section A.4).
const INTERVAL: SimDuration = SimDuration::from_secs(1);

/// One machine whose frequency decisions set.
pub struct NodePlant {
    machine: Machine,
    observation: CpuObservation,
}

impl NodePlant {
    /// A machine of the plan, after its first second at the nominal frequency.
    pub fn new(plan: &NodePlan, seeds: &SeedTree) -> Self {
        let mut machine = plan.machine(seeds);
        let observation = machine.advance(INTERVAL);
        Self { machine, observation }
    }

    /// The same of settings.
    pub fn of(config: &NodeConfig, seeds: &SeedTree) -> Result<Self> {
        Ok(Self::new(&config.build()?, seeds))
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl Plant<CpuFrequency> for NodePlant {
    type Error = Infallible;

    fn targets(&self) -> usize {
        1
    }

    fn advance(&mut self) -> Result<(), Infallible> {
        self.observation = self.machine.advance(INTERVAL);
        Ok(())
    }

    fn observe(&self, _target: usize) -> &CpuObservation {
        &self.observation
    }

    fn apply(
        &mut self,
        _: usize,
        decision: &Decision<CpuFrequency>,
    ) -> Result<Kilohertz, Infallible> {
        let frequency = *decision.applied();
        self.machine.set_frequency(frequency);
        self.observation.frequency = frequency;
        Ok(frequency)
    }
}
