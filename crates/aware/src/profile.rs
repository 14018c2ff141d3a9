//! What a user sets (the profile P of Alg. 5.1).

use serde::{Deserialize, Serialize};

/// Thresholds of a life cycle. Rewards are means over an episode, in the units of one reward, so
/// that episodes of any length compare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// Whether the fallback acts first and its decisions train the agent.
    pub bootstrap: bool,
    /// Mean reward that ends the offline stage (T_online).
    pub online_reward: f64,
    /// Mean reward from which a policy serves, and below which it is retrained (T_serving).
    pub serving_reward: f64,
    /// Mean reward below which an agent that trains online gives way to the fallback. None: it goes
    /// on, as printed.
    pub online_floor: Option<f64>,
    /// Largest standard deviation of the rewards of a policy that serves (T_var).
    pub serving_deviation: f64,
    /// Latest episodes of a stage that mean and deviation are taken over.
    pub episodes: usize,
    /// Whether the agent may explore on the workload.
    pub exploration: Exploration,
    /// A policy acts only if the lower bound of its value, by off-policy evaluation, is at least the
    /// fallback's value minus this. None: without evaluation, as printed.
    pub activation_margin: Option<f64>,
    /// Episodes in one stage, with the threshold missed at each, after which it counts as stuck.
    pub patience: usize,
}

/// Whether an agent may explore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exploration {
    /// It trains online, as printed.
    Allowed,
    /// It trains on recorded decisions alone: for high-stakes workloads.
    Never,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            bootstrap: true,
            online_reward: 0.5,
            serving_reward: 0.5,
            online_floor: None,
            serving_deviation: 0.2,
            episodes: 5,
            exploration: Exploration::Never,
            activation_margin: Some(0.0),
            patience: 100,
        }
    }
}

impl Profile {
    /// An error for values outside their range, and for combinations that can never serve.
    pub fn validate(&self) -> Result<()> {
        let finite = |key: &'static str, value: f64| match value.is_finite() {
            true => Ok(()),
            false => Err(Error::OutOfRange { key, value, expected: "a number" }),
        };
        finite("onlineReward", self.online_reward)?;
        finite("servingReward", self.serving_reward)?;
        finite("onlineFloor", self.online_floor.unwrap_or(0.0))?;
        let non_negative = |key: &'static str, value: f64| match value.is_finite() && value >= 0.0 {
            true => Ok(()),
            false => Err(Error::OutOfRange { key, value, expected: "a number, 0 or above" }),
        };
        non_negative("servingDeviation", self.serving_deviation)?;
        non_negative("activationMargin", self.activation_margin.unwrap_or(0.0))?;
        let count = |key: &'static str, value: usize, low: usize| match value >= low {
            true => Ok(()),
            false => {
                let expected = if low == 2 { "at least 2" } else { "at least `episodes`" };
                Err(Error::OutOfRange { key, value: value as f64, expected })
            }
        };
        count("episodes", self.episodes, 2)?;
        count("patience", self.patience, self.episodes)?;
        if !self.bootstrap && self.exploration == Exploration::Never {
            return Err(Error::NothingToLearnFrom);
        }
        Ok(())
    }
}

/// What a life cycle refuses. A refusal changes nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A value outside its range.
    #[error("{key} = {value} is out of range: it must be {expected}")]
    OutOfRange {
        /// Its name in the spec of an object.
        key: &'static str,
        /// The value.
        value: f64,
        /// What it must be.
        expected: &'static str,
    },
    /// Neither bootstrapping nor exploration.
    #[error(
        "an agent that neither bootstraps nor explores has nothing to learn from: set bootstrap to true, \
         or exploration to allowed"
    )]
    NothingToLearnFrom,
    /// A reward that is not finite.
    #[error("the reward of an episode is not finite ({value}): it was left out")]
    Reward {
        /// The reward.
        value: f64,
    },
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
