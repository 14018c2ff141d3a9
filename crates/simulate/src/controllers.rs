//! The controllers of a simulation: a heuristic, learned policies, random actions, or the
//! platform itself. All of them go through the one decision path.

use std::path::{Path, PathBuf};

use homeostat_core::{Persist, SeedTree, Snapshot, Stream};
use homeostat_decide::{
    AllocationBounds, Observation, Policy, PolicyConfig, Proposal, Reason, ScaledBy, ScalingAction,
};
use homeostat_lab::{Candidate, Error, Result, load_candidates, nearest};
use homeostat_rl::{LearnedPolicy, Sampling};

/// The names that are no heuristics.
const NONE: &str = "none";
const RANDOM: &str = "random";
const ON_DEMAND: &str = "on-demand";

/// The controllers of all functions of a simulation.
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
        /// Their name in tables.
        name: String,
        /// The file or run that holds them, if one does.
        file: Option<PathBuf>,
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

    /// A name, a run directory or a policy file.
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
                    "a policy file, a run directory, or one of {}{hint}",
                    names.join(", ")
                ),
            });
        }
        let candidates = load_candidates(path)?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Self::Learned {
            name: stem.unwrap_or_else(|| text.to_owned()),
            file: Some(path.to_owned()),
            candidates,
            sampling,
            takes_turns: false,
        })
    }

    /// The name in tables.
    pub fn name(&self) -> &str {
        match self {
            Self::Heuristic(name) if name == "fixed" => NONE,
            Self::Heuristic(name) | Self::Learned { name, .. } => name,
            Self::Random => RANDOM,
            Self::OnDemand => ON_DEMAND,
        }
    }

    /// The file or run directory of policies that were learnt.
    pub fn file(&self) -> Option<&Path> {
        if let Self::Learned { file, .. } = self { file.as_deref() } else { None }
    }

    /// Whether one of them reads the other members of its team.
    pub(crate) fn needs_team(&self) -> bool {
        let Self::Learned { candidates, .. } = self else { return false };
        candidates.iter().any(|candidate| candidate.policy.schema().features.needs_team())
    }

    /// What changes the allocations of targets.
    pub(crate) fn scaled_by(&self) -> ScaledBy {
        if matches!(self, Self::OnDemand) { ScaledBy::Itself } else { ScaledBy::Controllers }
    }

    /// The controller of the target with this number. `heuristic` finds policies by name.
    pub fn build(
        &self,
        number: usize,
        heuristic: &dyn Fn(&str) -> homeostat_decide::Result<PolicyConfig>,
        bounds: AllocationBounds,
        seeds: &SeedTree,
    ) -> Result<Box<dyn Policy>> {
        let rng = seeds.stream(&format!("controller/{number}"));
        Ok(match self {
            Self::Heuristic(name) => heuristic(name)?.build()?,
            Self::OnDemand => PolicyConfig::by_name("fixed")?.build()?,
            Self::Random => Box::new(RandomPolicy { rng }),
            Self::Learned { candidates, sampling, .. } => {
                let candidate = of_agent(candidates, number)?;
                let Candidate { name, policy, .. } = candidate;
                let learned = LearnedPolicy::new(name, policy, bounds, *sampling, rng);
                Box::new(learned.map_err(|error| Error::BadPolicy {
                    path: name.clone().into(),
                    reason: error.to_string(),
                })?)
            }
        })
    }
}

/// The policy for a function: that of the agent with its number, around again if there are
/// more functions than agents. One that is missing stopped in training.
pub(crate) fn of_agent(candidates: &[Candidate], number: usize) -> Result<&Candidate> {
    let last = candidates.iter().map(|candidate| candidate.agent).max().unwrap_or(0);
    let agent = if candidates.len() == 1 { last } else { number as u32 % (last + 1) };
    candidates.iter().find(|candidate| candidate.agent == agent).ok_or_else(|| Error::BadPolicy {
        path: format!("agent-{agent}").into(),
        reason: "it is missing: the agent stopped in training".to_owned(),
    })
}

/// A random action in every window.
struct RandomPolicy {
    rng: Stream,
}

impl Policy for RandomPolicy {
    fn name(&self) -> &str {
        RANDOM
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        let action = ScalingAction::ALL[self.rng.below(ScalingAction::ALL.len())];
        action.propose(&obs.allocation)
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

/// A policy that has to wait for its turn: it sees the window and changes nothing.
pub(super) struct OutOfTurn<'a>(pub(super) &'a mut dyn Policy);

impl Policy for OutOfTurn<'_> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn propose(&mut self, obs: &Observation) -> Proposal {
        self.0.propose(obs);
        Proposal::keep(&obs.allocation).because(Reason::NotItsTurn)
    }
}

impl Persist for OutOfTurn<'_> {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.0.save(name, out);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.0.load(name, from)
    }
}
