//! An agent on a real workload: the life cycle, driven by what is observed and decided.

use serde::{Deserialize, Serialize};

use crate::{
    Decided, Episode, EpisodeConfig, Episodes, Lifecycle, Profile, Result, StageChange, Verdict,
};

/// The life cycle of one agent with its episodes. It is a value: saved and restored, it goes on as
/// before.
///
/// ```
/// use homeostat_aware::{Actor, Agent, Behaviour, Decided, EpisodeConfig, Profile, Stage, Verdict};
/// # use homeostat_core::{ActionSchema, ControlSchema, FeatureSchema};
///
/// # fn main() -> homeostat_aware::Result<()> {
/// let episodes = EpisodeConfig { length_ms: 30_000, max_gap_ms: 60_000 };
/// let mut agent = Agent::new(Profile { episodes: 2, ..Profile::default() }, episodes)?;
/// # let schema = ControlSchema {
/// #     features: FeatureSchema { id: "a/load-v1".into(), features: vec![], history: 1 },
/// #     action: ActionSchema { id: "a/none-v1".into(), parts: vec![] },
/// #     bounds: vec![],
/// # };
/// agent.evaluated("shop.policy", Verdict { policy_low: 0.8, fallback: 0.8 });
/// let mut stages = Vec::new();
/// for at_ms in (0..=90_000).step_by(15_000) {
///     let observed = agent.observed(at_ms, &[0.5], 0.9);
///     stages.extend(observed.change.map(|change| change.to));
///     let policy = match agent.actor() {
///         Actor::Fallback => "hpa+vpa",
///         _ => "shop.policy",
///     };
///     agent.decided(Decided {
///         at_ms,
///         observation: vec![0.5],
///         action: vec![],
///         probability: None,
///         behaviour: Behaviour {
///             actor: agent.actor(),
///             policy: policy.to_owned(),
///             workload: "shop/checkout".to_owned(),
///             schema: schema.clone(),
///         },
///     });
/// }
/// assert_eq!(stages, [Stage::Offline, Stage::Serving]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    lifecycle: Lifecycle,
    episodes: Episodes,
    /// The policy of the last evaluation, and what it found.
    evaluated: Option<(String, Verdict)>,
}

/// What follows from an observation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// The episode that ended, to be recorded.
    pub episode: Option<Episode>,
    /// The stage that ended with it.
    pub change: Option<StageChange>,
}

impl Agent {
    /// A new agent. An error for a profile outside its range.
    pub fn new(profile: Profile, episodes: EpisodeConfig) -> Result<Self> {
        let lifecycle = Lifecycle::new(profile)?;
        Ok(Self { lifecycle, episodes: Episodes::new(episodes), evaluated: None })
    }

    /// Changes its settings; it stays in its stage.
    pub fn set_profile(&mut self, profile: Profile, episodes: EpisodeConfig) -> Result<()> {
        self.lifecycle.set_profile(profile)?;
        self.episodes.set_config(episodes);
        Ok(())
    }

    /// Its life cycle.
    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    /// Who acts.
    pub fn actor(&self) -> crate::Actor {
        self.lifecycle.actor()
    }

    /// The policy that was evaluated last, and what was found.
    pub fn evaluation(&self) -> Option<(&str, Verdict)> {
        self.evaluated.as_ref().map(|(policy, verdict)| (policy.as_str(), *verdict))
    }

    /// A policy was evaluated. The same evaluation does not count twice: a policy that failed since
    /// needs a new one.
    pub fn evaluated(&mut self, policy: &str, verdict: Verdict) -> Option<StageChange> {
        if self.evaluated.as_ref().is_some_and(|(known, _)| known == policy) {
            return None;
        }
        self.evaluated = Some((policy.to_owned(), verdict));
        self.lifecycle.evaluated(verdict)
    }

    /// The user takes the policy out of service.
    pub fn withdraw(&mut self) -> Option<StageChange> {
        self.evaluated = None;
        self.lifecycle.withdraw()
    }

    /// Something was observed, with the reward of the time since the last decision.
    pub fn observed(&mut self, at_ms: i64, observation: &[f32], reward: f64) -> Observed {
        let episode = self.episodes.observed(at_ms, observation, reward);
        // An episode in which another stood in says nothing about the one whose stage it is.
        let actor = self.actor();
        let counts = |episode: &&Episode| episode.is_whole && episode.behaviour.actor == actor;
        let change = episode.as_ref().filter(counts).and_then(|episode| {
            let reward = episode.mean_reward();
            self.lifecycle.episode(reward).expect("an episode contains finite rewards only")
        });
        Observed { episode, change }
    }

    /// What follows the last decision is not known.
    pub fn interrupted(&mut self) -> Option<Episode> {
        self.episodes.interrupted()
    }

    /// A decision was made. Returns the episode that it ends, to be recorded.
    pub fn decided(&mut self, decided: Decided) -> Option<Episode> {
        self.episodes.decided(decided)
    }
}
