//! A policy that follows the advice of a learner or a policy file.

use homeostat_core::{Persist, Result as CoreResult, Snapshot};
use homeostat_decide::{Observation, Policy, Proposal};
use homeostat_rl::LearnedPolicy;

use crate::learn::{Advice, propose};

/// A policy file that is served.
pub(super) struct Served {
    pub(super) version: String,
    pub(super) policy: LearnedPolicy,
}

/// The engine's own policy with the advice of a learner, which takes precedence. The own policy
/// sees every observation, so that it knows the workload when it stands in.
pub(super) struct Advised<'a> {
    pub(super) inner: &'a mut dyn Policy,
    pub(super) learned: Option<&'a mut LearnedPolicy>,
    pub(super) advice: Option<&'a Advice>,
    /// What a policy that does not act would have done.
    pub(super) shadow: Option<Proposal>,
}

impl Policy for Advised<'_> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let own = self.inner.propose(obs);
        match (self.advice, &mut self.learned) {
            (Some(Advice::Act(action)), _) => propose(action, &obs.allocation),
            (Some(Advice::Serve(_)), Some(learned)) => learned.propose(obs),
            (Some(Advice::Shadow(_)), Some(learned)) => {
                self.shadow = Some(learned.propose(obs));
                own
            }
            _ => own,
        }
    }
}

impl Persist for Advised<'_> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.inner.save(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.inner.load(name, from)
    }
}
