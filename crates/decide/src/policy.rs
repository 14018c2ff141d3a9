//! Who proposes, and what a proposal is.

use homeostat_core::{Persist, Snapshot};

use crate::{Allocation, Domain, Observe, PodScaling, Propose, Reason};

/// A rule or a network that proposes settings. A proposal depends on the observation and
/// on what the policy has saved of earlier ones, and on nothing else.
///
/// [`Persist`] covers what is remembered, not the settings: a policy is restored into one
/// that was built from the same settings.
pub trait Policy<D: Domain = PodScaling>: Persist + Send {
    /// Its name, as [`PolicyConfig::by_name`](crate::PolicyConfig::by_name) knows it.
    fn name(&self) -> &str;

    /// What the target should be given. Called once per observation, in the order of time.
    fn propose(&mut self, obs: &D::Observation) -> D::Proposal;
}

/// What a policy asks for in pod scaling: plain numbers, so that a broken policy can be told from a working one:
/// [`decide`](crate::decide()) refuses what is negative or not finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Number of replicas, rounded to the nearest.
    pub replicas: f64,
    /// Cores of each, rounded to the nearest millicore.
    pub cpu_cores: f64,
    /// Bytes of memory of each, rounded to the nearest.
    pub memory_bytes: f64,
    /// Why.
    pub reasons: Vec<Reason>,
}

impl Proposal {
    /// The given allocation, without a reason yet.
    pub fn keep(allocation: &Allocation) -> Self {
        <Self as Propose>::keep(allocation)
    }

    /// Adds a reason.
    pub fn because(mut self, reason: Reason) -> Self {
        self.reasons.push(reason);
        self
    }
}

/// A policy whose proposal was made elsewhere: by a learner in training, or by a program at the
/// other end of a connection. It is good for one decision.
pub struct Prepared<D: Domain = PodScaling> {
    proposal: Option<D::Proposal>,
}

impl<D: Domain> Prepared<D> {
    /// Will propose this.
    pub fn new(proposal: D::Proposal) -> Self {
        Self { proposal: Some(proposal) }
    }
}

impl<D: Domain> Policy<D> for Prepared<D>
where
    D::Proposal: Send,
{
    fn name(&self) -> &str {
        "prepared"
    }

    fn propose(&mut self, obs: &D::Observation) -> D::Proposal {
        self.proposal.take().unwrap_or_else(|| D::Proposal::keep(&obs.setting()))
    }
}

impl<D: Domain> Persist for Prepared<D> {
    fn save(&self, _name: &str, _out: &mut Snapshot) {}

    fn load(&mut self, _name: &str, _from: &Snapshot) -> homeostat_core::Result<()> {
        Ok(())
    }
}
