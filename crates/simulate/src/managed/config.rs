//! Settings of a policy under its life cycle.

use homeostat_aware::{Exploration, Profile};
use homeostat_decide::RewardPreset;
use homeostat_lab::{Error, Result};
use homeostat_rl::{DdpgConfig, EvaluationConfig, MIN_TRAJECTORIES, OfflineConfig};

/// How an agent is bootstrapped, trained and retrained.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagedConfig {
    /// Thresholds of the life cycle.
    pub profile: Profile,
    /// What the agent is rewarded for.
    pub reward: RewardPreset,
    /// What learns.
    pub learner: LearnerConfig,
    /// Decisions of an episode.
    pub episode: usize,
    /// Episodes of the fallback before the agent first trains. Every fourth is kept from training,
    /// for the evaluation.
    pub bootstrap_episodes: usize,
    /// Gradient steps of that first training.
    pub bootstrap_steps: u64,
    /// Gradient steps after each later episode of the fallback.
    pub offline_steps: u64,
    /// Gradient steps for each decision of an agent that trains online.
    pub online_steps: u64,
    /// Standard deviation of the noise on the actions of an agent that explores, in units of [-1, 1].
    pub noise: f32,
    /// Episodes that the agent learns from: the latest.
    pub episodes_kept: usize,
    /// How far a policy's actions may be from recorded ones, on average and in units of [-1, 1], for its
    /// evaluation to count.
    pub max_distance: f64,
    /// How policies are evaluated.
    pub evaluation: EvaluationConfig,
}

/// What learns.
#[derive(Debug, Clone, PartialEq)]
pub enum LearnerConfig {
    /// From recorded decisions, those of the fallback and its own: it can be bootstrapped.
    Recorded(OfflineConfig),
    /// DDPG, from what it does itself: it begins online.
    Ddpg(DdpgConfig),
}

/// One episode in so many is kept from training.
pub(super) const HELD_OUT: usize = 4;

impl ManagedConfig {
    /// An error for settings that cannot work.
    pub fn validate(&self) -> Result<()> {
        self.profile.validate().map_err(of_profile)?;
        let explores = self.profile.exploration == Exploration::Allowed;
        if matches!(self.learner, LearnerConfig::Ddpg(_)) && (self.profile.bootstrap || !explores) {
            let expected =
                "DDPG learns from what it does itself: it needs exploration, and no bootstrapping";
            return Err(refused("learner", "ddpg", expected));
        }
        let fewest = HELD_OUT * MIN_TRAJECTORIES;
        let counts =
            [("episode", self.episode, 2), ("bootstrap_episodes", self.bootstrap_episodes, fewest)];
        for (key, value, least) in counts {
            if value < least {
                return Err(refused(
                    key,
                    &value.to_string(),
                    &format!("it must be at least {least}"),
                ));
            }
        }
        if self.episodes_kept <= self.bootstrap_episodes {
            let expected = "it must be above `bootstrap_episodes`";
            return Err(refused("episodes_kept", &self.episodes_kept.to_string(), expected));
        }
        if !(self.noise.is_finite() && self.noise >= 0.0) {
            return Err(refused(
                "noise",
                &self.noise.to_string(),
                "it must be a number, 0 or above",
            ));
        }
        if !(self.max_distance.is_finite() && self.max_distance >= 0.0) {
            let value = self.max_distance.to_string();
            return Err(refused("max_distance", &value, "it must be a number, 0 or above"));
        }
        self.evaluation.validate()?;
        match &self.learner {
            LearnerConfig::Recorded(config) => config.validate()?,
            LearnerConfig::Ddpg(config) => config.validate()?,
        }
        Ok(())
    }
}

/// A profile that the life cycle refuses.
pub(super) fn of_profile(error: homeostat_aware::Error) -> Error {
    Error::Unreadable {
        source_text: "the profile of a managed policy".to_owned(),
        reason: error.to_string(),
    }
}

fn refused(key: &str, value: &str, expected: &str) -> Error {
    Error::OutOfRange {
        key: key.to_owned(),
        value: value.to_owned(),
        source_text: "the settings of a managed policy".to_owned(),
        expected: expected.to_owned(),
    }
}
