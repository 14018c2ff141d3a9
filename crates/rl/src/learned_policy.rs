//! A policy file as a [`decide::Policy`](homeostat_decide::Policy): the one type that simulation,
//! replay and the operator serve.

use std::sync::Arc;

use homeostat_core::{Persist, Result as CoreResult, Snapshot, Stream};
use homeostat_decide::{AllocationBounds, Observation, PodInterface, Proposal, Reason};
use homeostat_env::Action;
use homeostat_nn::Kernel;

use crate::{Policy, Sampling, Workspace};

/// A learned policy for one target.
pub struct LearnedPolicy {
    name: String,
    policy: Policy,
    interface: PodInterface,
    sampling: Sampling,
    rng: Stream,
    workspace: Workspace,
    features: Vec<f32>,
    action: Action,
    /// Names of the features, if decisions say what was read.
    feature_names: Option<Arc<[String]>>,
}

impl LearnedPolicy {
    /// Refuses a policy whose schemas this version does not serve. `rng` is drawn from only if
    /// actions are sampled.
    pub fn new(
        name: &str,
        policy: &Policy,
        bounds: AllocationBounds,
        sampling: Sampling,
        rng: Stream,
    ) -> homeostat_decide::Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            policy: policy.clone(),
            interface: PodInterface::for_schema(policy.schema(), bounds)?,
            sampling,
            rng,
            workspace: Workspace::new(Kernel::best()),
            features: Vec::new(),
            action: Action::Discrete(0),
            feature_names: None,
        })
    }

    /// The same, and every decision says which features were read.
    pub fn explaining(mut self) -> Self {
        let features = &self.policy.schema().features.features;
        self.feature_names = Some(features.iter().map(|feature| feature.name.clone()).collect());
        self
    }

    /// Measures against other bounds from now on.
    pub fn set_bounds(&mut self, bounds: AllocationBounds) {
        self.interface.set_bounds(bounds);
    }

    /// Whether it reads features of the team.
    pub fn needs_team(&self) -> bool {
        self.interface.needs_team()
    }
}

impl homeostat_decide::Policy for LearnedPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        self.interface.observe(obs, &mut self.features);
        let Self { policy, sampling, rng, workspace, features, action, .. } = self;
        policy.act(features, *sampling, rng, action, workspace);
        let one;
        let choices: &[usize] = match &self.action {
            Action::MultiDiscrete(choices) => choices,
            action => {
                one = [action.discrete().unwrap_or(0)];
                &one
            }
        };
        let mut proposal = self.interface.propose(choices, obs);
        if let Some(names) = &self.feature_names {
            let (names, values) = (names.clone(), self.features.clone());
            proposal.reasons.insert(0, Reason::Features { names, values });
        }
        proposal
    }
}

impl Persist for LearnedPolicy {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.interface.save(&format!("{name}/interface"), out);
        self.rng.save(&format!("{name}/rng"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.interface.load(&format!("{name}/interface"), from)?;
        self.rng.load(&format!("{name}/rng"), from)
    }
}
