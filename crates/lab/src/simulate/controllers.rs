//! Who controls the functions of a simulation: a heuristic, a learned policy, chance, or the
//! platform itself. All of them go through the one decision path.

use std::path::Path;

use homeostat_core::{Persist, SeedTree, SimDuration, Snapshot, Stream};
use homeostat_decide::{
    AllocationBounds, Features, Observation, Policy, PolicyConfig, Proposal, Reason, ScalingAction,
    SetPoint, SetPoints,
};
use homeostat_env::Action;
use homeostat_nn::Kernel;
use homeostat_rl::{Sampling, Workspace};
use homeostat_sim_faas::{FaasPlan, FunctionProfile, heuristic};

use crate::{Candidate, Error, Result, load_candidates, nearest};

/// The names that are no heuristics.
const NONE: &str = "none";
const RANDOM: &str = "random";
const ON_DEMAND: &str = "on-demand";

/// Who controls every function of a simulation.
#[derive(Debug, Clone)]
pub enum Controllers {
    /// A heuristic by name.
    Heuristic(String),
    /// A random action in every window.
    Random,
    /// The platform itself: containers on demand, ended when idle.
    OnDemand,
    /// Policies that were learnt: function k has that of agent k, around again if there are
    /// more functions than policies.
    Learned {
        /// What they are called.
        name: String,
        /// The policies.
        candidates: Vec<Candidate>,
        /// Most probable actions or draws.
        sampling: Sampling,
        /// Whether one of them acts in each window, the worst off first (CPQ-RL).
        takes_turns: bool,
    },
}

impl Controllers {
    /// Every name that [`Controllers::parse`] knows.
    pub fn names() -> Vec<&'static str> {
        let mut names = PolicyConfig::names().to_vec();
        names.retain(|name| *name != "fixed");
        names.extend([NONE, RANDOM, ON_DEMAND]);
        names
    }

    /// A name, a run folder or a policy file.
    pub fn parse(text: &str, sampling: Sampling) -> Result<Self> {
        match text {
            NONE => return Ok(Self::Heuristic("fixed".to_owned())),
            RANDOM => return Ok(Self::Random),
            ON_DEMAND => return Ok(Self::OnDemand),
            name if PolicyConfig::by_name(name).is_ok() => {
                return Ok(Self::Heuristic(name.to_owned()));
            }
            _ => {}
        }
        let path = Path::new(text);
        if !path.exists() {
            let names = Self::names();
            let hint = nearest(text, names.iter().copied());
            return Err(Error::OutOfRange {
                key: "policy".to_owned(),
                value: text.to_owned(),
                source_text: "flag --policy".to_owned(),
                expected: format!(
                    "it is no file or run, and no name of {}{hint}",
                    names.join(", ")
                ),
            });
        }
        let (candidates, _) = load_candidates(path)?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Self::Learned {
            name: stem.unwrap_or_else(|| text.to_owned()),
            candidates,
            sampling,
            takes_turns: false,
        })
    }

    /// What to call it in tables.
    pub fn name(&self) -> &str {
        match self {
            Self::Heuristic(name) if name == "fixed" => NONE,
            Self::Heuristic(name) | Self::Learned { name, .. } => name,
            Self::Random => RANDOM,
            Self::OnDemand => ON_DEMAND,
        }
    }

    /// The controller of the function with this number.
    pub(crate) fn build(
        &self,
        number: usize,
        profile: &FunctionProfile,
        plan: &FaasPlan,
        seeds: &SeedTree,
    ) -> Result<Box<dyn Policy>> {
        let rng = seeds.stream(&format!("controller/{number}"));
        Ok(match self {
            Self::Heuristic(name) => heuristic(name, plan, profile)?.build()?,
            Self::OnDemand => PolicyConfig::by_name("fixed")?.build()?,
            Self::Random => Box::new(RandomPolicy { bounds: *plan.bounds(), rng }),
            Self::Learned { candidates, sampling, .. } => {
                let candidate = of_agent(candidates, number)?;
                Box::new(LearnedPolicy::new(candidate, plan, profile, *sampling, rng)?)
            }
        })
    }
}

/// The policy for a function: that of the agent with its number, around again if there are
/// more functions than agents. One that is missing stopped in training.
fn of_agent(candidates: &[Candidate], number: usize) -> Result<&Candidate> {
    let last = candidates.iter().map(|candidate| candidate.agent).max().unwrap_or(0);
    let agent = if candidates.len() == 1 { last } else { number as u32 % (last + 1) };
    candidates.iter().find(|candidate| candidate.agent == agent).ok_or_else(|| Error::BadPolicy {
        path: format!("agent-{agent}").into(),
        reason: "it is missing: the agent stopped in training".to_owned(),
    })
}

/// How long a platform that scales itself keeps an idle container: OpenWhisk's default.
pub(crate) const KEEP_ALIVE: SimDuration = SimDuration::from_secs(600);

/// A learned policy as a controller: it reads the features and answers with an action.
pub struct LearnedPolicy {
    name: String,
    policy: homeostat_rl::Policy,
    sampling: Sampling,
    desk: Desk,
    rng: Stream,
    workspace: Workspace,
}

/// What a learned policy reads and how its actions are carried out.
enum Desk {
    /// Features and steps of Table 4.1.
    Steps(Features),
    /// Set-points.
    SetPoints(SetPoints),
}

impl LearnedPolicy {
    /// Refuses a policy whose world has other observations. A policy of set-points is told the
    /// function's service time, as ENSURE is.
    pub fn new(
        candidate: &Candidate,
        plan: &FaasPlan,
        profile: &FunctionProfile,
        sampling: Sampling,
        rng: Stream,
    ) -> Result<Self> {
        let desk = match candidate.policy.env() {
            "faas/function-v1" | "faas/shared-v1" | "faas/fleet-v1" => {
                Desk::Steps(Features::new(*plan.bounds()))
            }
            "faas/fleet-v2" => {
                Desk::SetPoints(SetPoints::new(*plan.bounds(), profile.service_time()))
            }
            env => {
                return Err(Error::BadPolicy {
                    path: candidate.name.clone().into(),
                    reason: format!(
                        "it was trained on {env}, and not to scale a function by itself"
                    ),
                });
            }
        };
        Ok(Self {
            name: candidate.name.clone(),
            policy: candidate.policy.clone(),
            sampling,
            desk,
            rng,
            workspace: Workspace::new(Kernel::best()),
        })
    }

    fn choose(&mut self, features: &[f32]) -> Action {
        // The policy writes an action of its own form over it.
        let mut action = Action::MultiDiscrete(vec![0, 0]);
        self.policy.act(features, self.sampling, &mut self.rng, &mut action, &mut self.workspace);
        action
    }
}

impl Policy for LearnedPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        match &mut self.desk {
            Desk::Steps(features) => {
                let bounds = *features.bounds();
                let features = features.observe(obs);
                let chosen = self.choose(&features).discrete().and_then(ScalingAction::from_index);
                propose(chosen.unwrap_or(ScalingAction::Hold), obs, &bounds)
            }
            Desk::SetPoints(points) => {
                let features = points.observe(obs);
                let action = self.choose(&features);
                let (Action::MultiDiscrete(choices), Desk::SetPoints(points)) =
                    (action, &mut self.desk)
                else {
                    return Proposal::keep(&obs.allocation);
                };
                points.propose(SetPoint::from_choices(choices[0], choices[1]), &obs.allocation)
            }
        }
    }
}

impl Persist for LearnedPolicy {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let desk = format!("{name}/features");
        match &self.desk {
            Desk::Steps(features) => features.save(&desk, out),
            Desk::SetPoints(points) => points.save(&desk, out),
        }
        self.rng.save(&format!("{name}/rng"), out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        let desk = format!("{name}/features");
        match &mut self.desk {
            Desk::Steps(features) => features.load(&desk, from)?,
            Desk::SetPoints(points) => points.load(&desk, from)?,
        }
        self.rng.load(&format!("{name}/rng"), from)
    }
}

/// A random action in every window.
struct RandomPolicy {
    bounds: AllocationBounds,
    rng: Stream,
}

impl Policy for RandomPolicy {
    fn name(&self) -> &str {
        RANDOM
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let action = ScalingAction::ALL[self.rng.below(ScalingAction::ALL.len())];
        propose(action, obs, &self.bounds)
    }
}

impl Persist for RandomPolicy {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rng.save(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.rng.load(name, from)
    }
}

/// An action as a proposal; an illegal one changes nothing.
fn propose(action: ScalingAction, obs: &Observation, bounds: &AllocationBounds) -> Proposal {
    let wanted = action.apply(&obs.allocation, bounds).unwrap_or(obs.allocation);
    Proposal::keep(&wanted).because(Reason::Action { action })
}
