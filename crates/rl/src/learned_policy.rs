//! A policy file as a [`decide::Policy`](homeostat_decide::Policy), for simulation, replay and the
//! operator.

use std::sync::Arc;

use homeostat_core::{Persist, Result as CoreResult, Snapshot, Stream};
use homeostat_decide::{AllocationBounds, Observation, PodInterface, Proposal, Reason};
use homeostat_env::Action;
use homeostat_nn::Kernel;

use crate::{Policy, Sampling, Workspace};

/// A learned policy for one target.
///
/// ```
/// use homeostat_core::{
///     AgentId, Bounds, Bytes, ControlSchema, Fraction, Millicores, SeedTree, SimDuration, SimTime,
///     Slo, Stream,
/// };
/// use homeostat_decide::{
///     Allocation, AllocationBounds, Features, Guards, Observation, ScalingAction, decide,
/// };
/// use homeostat_env::{EnvSpec, Space, make};
/// use homeostat_rl::{AgentContext, Algorithm, LearnedPolicy, Policy, Sampling};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // An environment that states these schemas trains policies for pods.
/// let control = ControlSchema {
///     features: Features::schema(),
///     action: ScalingAction::schema(),
///     bounds: Vec::new(),
/// };
/// let spec = EnvSpec {
///     observation: Space::uniform_box(Features::COUNT, -1.0, 1.0),
///     action: Space::Discrete(ScalingAction::ALL.len()),
///     control: Some(control.into()),
///     ..make("toy/identity-v1")?.spec().clone()
/// };
/// let context = AgentContext { agent: AgentId::new(0), spec, seeds: SeedTree::new(1) };
/// let file = Algorithm::Ppo.default_config().build(&context)?.policy().to_bytes();
///
/// let bounds = AllocationBounds {
///     replicas: Bounds::try_new(1, 10)?,
///     cpu: Bounds::try_new(Millicores::new(125), Millicores::new(2000))?,
///     memory: Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(1024))?,
/// };
/// let (policy, rng) = (Policy::from_bytes(&file)?, Stream::from_seed(0));
/// let mut policy =
///     LearnedPolicy::new("ppo", &policy, bounds, Sampling::Greedy, rng)?.explaining();
/// let mut guards = Guards::bounds_only(bounds)?;
/// let slo = Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(250))?;
/// let allocation =
///     Allocation { replicas: 2, cpu: Millicores::new(500), memory: Bytes::from_mib(256) };
/// let obs = Observation::new(SimTime::ZERO, allocation, slo);
/// let decision = decide(&mut policy, &mut guards, &obs);
/// assert!(decision.to_string().contains("the policy read SP 1.00"), "{decision}");
/// # Ok(())
/// # }
/// ```
pub struct LearnedPolicy {
    name: String,
    policy: Policy,
    interface: PodInterface,
    sampling: Sampling,
    rng: Stream,
    workspace: Workspace,
    features: Vec<f32>,
    action: Action,
    /// The action as numbers.
    numbers: Vec<f32>,
    /// Names of the features, if decisions list them.
    feature_names: Option<Arc<[String]>>,
}

impl LearnedPolicy {
    /// An error if this version does not serve the schemas of the policy. Only
    /// [`Sampling::Stochastic`] draws from `rng`.
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
            numbers: Vec::new(),
            feature_names: None,
        })
    }

    /// Adds the features to the reasons of every decision.
    pub fn explaining(mut self) -> Self {
        let features = &self.policy.schema().features.features;
        self.feature_names = Some(features.iter().map(|feature| feature.name.clone()).collect());
        self
    }

    /// Changes the bounds that features are normalised by.
    pub fn set_bounds(&mut self, bounds: AllocationBounds) {
        self.interface.set_bounds(bounds);
    }

    /// Whether it reads features of the other members of the team.
    pub fn needs_team(&self) -> bool {
        self.interface.needs_team()
    }

    /// Whether it needs the request rate of its target.
    pub fn needs_load(&self) -> bool {
        self.interface.needs_load()
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
        let chosen = &mut self.numbers;
        chosen.clear();
        match &self.action {
            Action::Discrete(choice) => chosen.push(*choice as f32),
            Action::MultiDiscrete(choices) => {
                chosen.extend(choices.iter().map(|choice| *choice as f32));
            }
            Action::Continuous(values) => chosen.extend_from_slice(values),
        }
        let mut proposal = self.interface.propose(chosen, obs);
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
