//! The horizontal and the vertical pod autoscaler on one target, a common setup although Kubernetes
//! advises against it on CPU: the horizontal one measures utilisation relative to the request, and
//! the vertical one changes the request.
//!
//! They work against each other. The vertical one keeps utilisation at about 1 / 1.15 = 87 % of the
//! request at any load. A horizontal one with a target of 50 % adds replicas, each uses less, the
//! requests shrink, and the utilisation is the same again; only a bound ends this. A target above
//! 87 % has the opposite effect: a few large replicas. This is the baseline that joint control
//! must beat, so nothing here prevents it.

use homeostat_core::{Persist, Result as CoreResult, Snapshot};

use super::hpa::{Hpa, HpaConfig};
use super::vpa::{Vpa, VpaConfig};
use crate::{Observation, Policy, Proposal, Result};

/// Settings of [`HpaVpa`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HpaVpaConfig {
    /// The horizontal autoscaler.
    pub hpa: HpaConfig,
    /// The vertical autoscaler.
    pub vpa: VpaConfig,
}

impl HpaVpaConfig {
    /// Refuses what either refuses.
    pub fn build(self) -> Result<HpaVpa> {
        Ok(HpaVpa { hpa: self.hpa.build()?, vpa: self.vpa.build()? })
    }
}

/// Both autoscalers, neither knowing of the other.
#[derive(Debug, Clone, PartialEq)]
pub struct HpaVpa {
    hpa: Hpa,
    vpa: Vpa,
}

impl Policy for HpaVpa {
    fn name(&self) -> &str {
        "hpa+vpa"
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let horizontal = self.hpa.propose(obs);
        let vertical = self.vpa.propose(obs);
        let mut reasons = horizontal.reasons;
        reasons.extend(vertical.reasons);
        Proposal { replicas: horizontal.replicas, reasons, ..vertical }
    }
}

impl Persist for HpaVpa {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.hpa.save(&format!("{name}/hpa"), out);
        self.vpa.save(&format!("{name}/vpa"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.hpa.load(&format!("{name}/hpa"), from)?;
        self.vpa.load(&format!("{name}/vpa"), from)
    }
}
