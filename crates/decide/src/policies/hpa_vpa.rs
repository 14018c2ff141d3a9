//! Both pod autoscalers on one target, as people run them although Kubernetes advises against
//! it on CPU: the horizontal one measures use as a part of the request, and the vertical one
//! changes the request.
//!
//! They fight. The vertical one keeps use at about 1 / 1.15 = 87 % of the request, whatever
//! the load. To a horizontal one that aims at 50 % that is overload: it adds replicas, each
//! uses less, the requests shrink after it, and the utilisation is where it was. Nothing ends
//! this but somebody's limit. An aim above 87 % goes the other way, to a few large replicas.
//! It is the baseline that a controller of both has to beat, so nothing here prevents it.

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
