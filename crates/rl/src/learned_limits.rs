//! A policy file that chooses the limits of a container's five resources.

use homeostat_core::{Persist, Result as CoreResult, Snapshot, Stream};
use homeostat_decide::{
    ContainerBounds, ContainerFeatures, ContainerObservation, ContainerProposal, ContainerScaling,
    LimitAction,
};
use homeostat_env::Action;
use homeostat_nn::Kernel;

use crate::{Policy, Sampling, Workspace};

/// A learned policy for the containers of one service.
pub struct LearnedLimits {
    name: String,
    policy: Policy,
    bounds: ContainerBounds,
    sampling: Sampling,
    rng: Stream,
    workspace: Workspace,
}

impl LearnedLimits {
    /// An error if the policy has other features or actions. Only [`Sampling::Stochastic`] draws from
    /// `rng`.
    pub fn new(
        name: &str,
        policy: &Policy,
        bounds: ContainerBounds,
        sampling: Sampling,
        rng: Stream,
    ) -> homeostat_decide::Result<Self> {
        LimitAction::require_schema(policy.schema())?;
        Ok(Self {
            name: name.to_owned(),
            policy: policy.clone(),
            bounds,
            sampling,
            rng,
            workspace: Workspace::new(Kernel::best()),
        })
    }
}

impl homeostat_decide::Policy<ContainerScaling> for LearnedLimits {
    fn name(&self) -> &str {
        &self.name
    }

    fn propose(&mut self, obs: &ContainerObservation) -> ContainerProposal {
        let Self { policy, sampling, rng, workspace, .. } = self;
        let features = ContainerFeatures::of(obs).0;
        let mut action = Action::Continuous(vec![0.0; 5]);
        policy.act(&features, *sampling, rng, &mut action, workspace);
        let numbers = action.continuous().expect("the schema has five numbers");
        let action = LimitAction(std::array::from_fn(|index| f64::from(numbers[index])));
        action.propose(&self.bounds, &obs.setting)
    }
}

impl Persist for LearnedLimits {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rng.save(&format!("{name}/rng"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> CoreResult<()> {
        self.rng.load(&format!("{name}/rng"), from)
    }
}
