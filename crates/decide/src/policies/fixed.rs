//! No scaling at all: what the others are compared with.

use homeostat_core::{Persist, Result as CoreResult, Snapshot};

use crate::{Allocation, Observation, Policy, Proposal, Reason, Result};

/// Settings of [`Fixed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FixedConfig {
    /// The allocation to give; by default, whatever the target has.
    pub allocation: Option<Allocation>,
}

impl FixedConfig {
    /// Never fails; the guards bound what is asked for.
    pub fn build(self) -> Result<Fixed> {
        Ok(Fixed { config: self })
    }
}

/// Always the same allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    config: FixedConfig,
}

impl Policy for Fixed {
    fn name(&self) -> &str {
        "fixed"
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let allocation = self.config.allocation.unwrap_or(obs.allocation);
        Proposal::keep(&allocation).because(Reason::Fixed)
    }
}

/// There is nothing to remember.
impl Persist for Fixed {
    fn save(&self, _name: &str, _out: &mut Snapshot) {}

    fn load(&mut self, _name: &str, _from: &Snapshot) -> CoreResult<()> {
        Ok(())
    }
}
