//! The state machine of Alg. 5.1.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Actor, Error, Exploration, Profile, Result, Stage};

/// The life cycle of one agent. It is a value: saved and restored, it goes on as before.
///
/// Deviations from Alg. 5.1: the rewards of a stage are those of its own episodes, since they belong
/// to who acted; a policy needs an admission by off-policy evaluation before it acts; an agent that
/// never explores goes from `Offline` to `Serving` and back; one that explores may have a floor, below
/// which it goes back to `Offline`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lifecycle {
    profile: Profile,
    stage: Stage,
    /// Rewards of the latest episodes of this stage, the latest last.
    rewards: VecDeque<f64>,
    /// Episodes since this stage began.
    episodes: usize,
    verdict: Option<Verdict>,
}

/// What off-policy evaluation found of the newest policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Lower bound of the policy's value.
    pub policy_low: f64,
    /// The fallback's value.
    pub fallback: f64,
}

/// A stage ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageChange {
    /// From which stage.
    pub from: Stage,
    /// To which.
    pub to: Stage,
    /// Why.
    pub cause: Cause,
}

/// Why a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The profile asks for bootstrapping.
    Bootstrapping,
    /// The profile skips it.
    NoBootstrapping,
    /// The rewards reached what the stage asks for.
    RewardReached {
        /// Their mean.
        mean: f64,
        /// Their standard deviation.
        deviation: f64,
    },
    /// The mean of recent rewards fell below the threshold.
    RewardTooLow {
        /// The mean.
        mean: f64,
        /// The threshold.
        threshold: f64,
    },
    /// Recent rewards vary more than the threshold.
    RewardVaries {
        /// Their standard deviation.
        deviation: f64,
        /// The threshold.
        threshold: f64,
    },
    /// A newer evaluation does not admit the policy that acts.
    PolicyRejected(Verdict),
    /// The user takes the policy out of service.
    Withdrawn,
}

/// Why a stage has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// For more episodes.
    Episodes {
        /// How many there are.
        seen: usize,
        /// How many are needed.
        needed: usize,
    },
    /// For a higher mean reward.
    Reward {
        /// The mean.
        mean: f64,
        /// The threshold.
        threshold: f64,
    },
    /// For rewards that vary less.
    Deviation {
        /// Their standard deviation.
        deviation: f64,
        /// The threshold.
        threshold: f64,
    },
    /// For a policy that was evaluated.
    Evaluation,
    /// For a better policy.
    Admission(Verdict),
}

impl Lifecycle {
    /// A new life cycle. An error for a profile outside its range.
    pub fn new(profile: Profile) -> Result<Self> {
        profile.validate()?;
        let (stage, rewards) = (Stage::Initialised, VecDeque::new());
        Ok(Self { profile, stage, rewards, episodes: 0, verdict: None })
    }

    /// The stage.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Who acts now.
    pub fn actor(&self) -> Actor {
        self.stage.actor()
    }

    /// The profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Episodes since this stage began.
    pub fn episodes(&self) -> usize {
        self.episodes
    }

    /// Changes the profile; the stage stays until the next episode is judged by the new one.
    pub fn set_profile(&mut self, profile: Profile) -> Result<()> {
        profile.validate()?;
        self.profile = profile;
        self.trim();
        Ok(())
    }

    /// A policy was evaluated. One that acts and is no longer admitted gives way at once.
    pub fn evaluated(&mut self, verdict: Verdict) -> Option<StageChange> {
        self.verdict = Some(verdict);
        let acts = matches!(self.stage, Stage::Online | Stage::Serving);
        if !acts || self.is_admitted() {
            return None;
        }
        Some(self.change(Stage::Offline, Cause::PolicyRejected(verdict)))
    }

    /// The user takes the policy out of service: the fallback acts, until a policy is evaluated again.
    pub fn withdraw(&mut self) -> Option<StageChange> {
        self.verdict = None;
        let acts = matches!(self.stage, Stage::Online | Stage::Serving);
        acts.then(|| self.change(Stage::Offline, Cause::Withdrawn))
    }

    /// An episode ended with this mean reward of a decision.
    pub fn episode(&mut self, reward: f64) -> Result<Option<StageChange>> {
        if !reward.is_finite() {
            return Err(Error::Reward { value: reward });
        }
        // The first episode belongs to the stage that it begins.
        let begun = (self.stage == Stage::Initialised).then(|| match self.profile.bootstrap {
            true => self.change(Stage::Offline, Cause::Bootstrapping),
            false => self.change(Stage::Online, Cause::NoBootstrapping),
        });
        self.rewards.push_back(reward);
        self.episodes += 1;
        self.trim();
        if begun.is_some() || self.rewards.len() < self.profile.episodes {
            return Ok(begun);
        }
        let (mean, deviation) = self.recent();
        let profile = &self.profile;
        Ok(match (self.stage, self.waiting()) {
            (Stage::Initialised, _) => None,
            (Stage::Serving, _) if mean < profile.serving_reward => {
                let cause = Cause::RewardTooLow { mean, threshold: profile.serving_reward };
                Some(self.change(self.after_failure(), cause))
            }
            (Stage::Serving, _) if deviation > profile.serving_deviation => {
                let threshold = profile.serving_deviation;
                Some(
                    self.change(self.after_failure(), Cause::RewardVaries { deviation, threshold }),
                )
            }
            (Stage::Online, _) if profile.online_floor.is_some_and(|floor| mean < floor) => {
                let threshold = profile.online_floor.unwrap_or(mean);
                Some(self.change(Stage::Offline, Cause::RewardTooLow { mean, threshold }))
            }
            (Stage::Serving, _) | (_, Some(_)) => None,
            (Stage::Offline, None) => {
                let to = match profile.exploration {
                    Exploration::Allowed => Stage::Online,
                    Exploration::Never => Stage::Serving,
                };
                Some(self.change(to, Cause::RewardReached { mean, deviation }))
            }
            (Stage::Online, None) => {
                Some(self.change(Stage::Serving, Cause::RewardReached { mean, deviation }))
            }
        })
    }

    /// Why the stage has not ended; none while a policy serves.
    pub fn waiting(&self) -> Option<Waiting> {
        let profile = &self.profile;
        let (seen, needed) = (self.rewards.len(), profile.episodes);
        if self.stage == Stage::Serving {
            return None;
        }
        if seen < needed {
            return Some(Waiting::Episodes { seen, needed });
        }
        let (mean, deviation) = self.recent();
        let threshold = match self.stage {
            Stage::Online => profile.serving_reward,
            _ => profile.online_reward,
        };
        if mean < threshold {
            return Some(Waiting::Reward { mean, threshold });
        }
        if self.stage == Stage::Online && deviation > profile.serving_deviation {
            return Some(Waiting::Deviation { deviation, threshold: profile.serving_deviation });
        }
        match self.verdict {
            _ if self.is_admitted() => None,
            Some(verdict) => Some(Waiting::Admission(verdict)),
            None => Some(Waiting::Evaluation),
        }
    }

    /// Whether a threshold has been missed for so long that it may never be met. The fallback, or the
    /// learner, goes on acting.
    pub fn is_stuck(&self) -> bool {
        self.episodes >= self.profile.patience && self.waiting().is_some()
    }

    /// Mean and standard deviation of the rewards of this stage's latest episodes.
    pub fn recent(&self) -> (f64, f64) {
        let count = self.rewards.len() as f64;
        if count == 0.0 {
            return (0.0, 0.0);
        }
        let mean = self.rewards.iter().sum::<f64>() / count;
        let squares: f64 = self.rewards.iter().map(|reward| (reward - mean).powi(2)).sum();
        (mean, (squares / (count - 1.0).max(1.0)).sqrt())
    }

    fn is_admitted(&self) -> bool {
        let Some(margin) = self.profile.activation_margin else { return true };
        // A bound that is not a number admits nothing.
        self.verdict.is_some_and(|verdict| verdict.policy_low >= verdict.fallback - margin)
    }

    /// Where an agent goes whose policy failed: the printed algorithm retrains online; one that never
    /// explores goes back to the fallback, and so does one that evaluation does not admit.
    fn after_failure(&self) -> Stage {
        match self.profile.exploration {
            Exploration::Allowed if self.is_admitted() => Stage::Online,
            _ => Stage::Offline,
        }
    }

    fn change(&mut self, to: Stage, cause: Cause) -> StageChange {
        let change = StageChange { from: self.stage, to, cause };
        if to == Stage::Offline {
            // What failed needs to be evaluated again, from decisions that know the failure.
            self.verdict = self.verdict.filter(|_| self.stage == Stage::Initialised);
        }
        self.stage = to;
        self.rewards.clear();
        self.episodes = 0;
        change
    }

    fn trim(&mut self) {
        while self.rewards.len() > self.profile.episodes {
            self.rewards.pop_front();
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bootstrapping => {
                f.write_str("HPA and VPA act and their decisions train the agent")
            }
            Self::NoBootstrapping => f.write_str("bootstrapping is switched off"),
            Self::RewardReached { mean, deviation } => {
                write!(f, "recent rewards of {mean:.3} +- {deviation:.3} reach the thresholds")
            }
            Self::RewardTooLow { mean, threshold } => {
                write!(f, "the mean of recent rewards, {mean:.3}, is below {threshold:.3}")
            }
            Self::RewardVaries { deviation, threshold } => {
                write!(f, "recent rewards vary by {deviation:.3}, more than {threshold:.3}")
            }
            Self::PolicyRejected(verdict) => write!(f, "evaluation rejects the policy: {verdict}"),
            Self::Withdrawn => f.write_str("the policy was taken out of service"),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Episodes { seen, needed } => write!(f, "{seen} of {needed} episodes have ended"),
            Self::Reward { mean, threshold } => {
                write!(f, "the mean of recent rewards, {mean:.3}, is below {threshold:.3}")
            }
            Self::Deviation { deviation, threshold } => {
                write!(f, "recent rewards vary by {deviation:.3}, more than {threshold:.3}")
            }
            Self::Evaluation => f.write_str("no policy has been evaluated"),
            Self::Admission(verdict) => {
                write!(f, "evaluation does not admit the policy: {verdict}")
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy_low, fallback } = self;
        write!(f, "its value is at least {policy_low:.3}, the fallback's is {fallback:.3}")
    }
}
