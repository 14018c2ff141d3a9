//! Policies and their proposals.

use homeostat_core::{Persist, Snapshot};

use crate::{Allocation, Domain, Observe, PodScaling, Propose, Reason};

/// A rule or a network that proposes settings. A proposal depends on the observation and on the
/// policy's state, and on nothing else.
///
/// [`Persist`] covers the state, not the configuration: restore it into a policy that was built
/// from the same configuration.
pub trait Policy<D: Domain = PodScaling>: Persist + Send {
    /// Its name, as [`PolicyConfig::by_name`](crate::PolicyConfig::by_name) knows it.
    fn name(&self) -> &str;

    /// The proposed setting. Called once per observation, in the order of time.
    fn propose(&mut self, obs: &D::Observation) -> D::Proposal;
}

/// The proposal of a pod-scaling policy, as plain numbers: [`decide`](crate::decide()) rejects
/// those that are negative or not finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// Number of replicas, rounded to the nearest.
    pub replicas: f64,
    /// Cores of each, rounded to the nearest millicore.
    pub cpu_cores: f64,
    /// Bytes of memory of each, rounded to the nearest.
    pub memory_bytes: f64,
    /// The policy's reasons.
    pub reasons: Vec<Reason>,
}

impl Proposal {
    /// The given allocation, without a reason.
    pub fn keep(allocation: &Allocation) -> Self {
        <Self as Propose>::keep(allocation)
    }

    /// Adds a reason.
    pub fn because(mut self, reason: Reason) -> Self {
        self.reasons.push(reason);
        self
    }
}

/// A policy whose proposal was made elsewhere: by a learner in training, or by a remote program. It
/// is used for one decision.
pub struct PreparedProposal<D: Domain = PodScaling> {
    proposal: Option<D::Proposal>,
}

impl<D: Domain> PreparedProposal<D> {
    /// A policy that returns this proposal.
    pub fn new(proposal: D::Proposal) -> Self {
        Self { proposal: Some(proposal) }
    }
}

impl<D: Domain> Policy<D> for PreparedProposal<D>
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

impl<D: Domain> Persist for PreparedProposal<D> {
    fn save(&self, _name: &str, _out: &mut Snapshot) {}

    fn load(&mut self, _name: &str, _from: &Snapshot) -> homeostat_core::Result<()> {
        Ok(())
    }
}
