//! How an object learns: the settings of the recommender `aware`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the recommender `aware` (Alg. 5.1 of AWARE). `hpa+vpa` acts while the object is in the
/// stages `Initialised` and `Offline`; in `Serving`, the policy of `policyFile` acts. Rewards lie between
/// 0 and 1: 0.7 times the preservation of the SLO plus 0.15 times the utilisation of CPU and of memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LearningSpec {
    /// `Shadow`: the policy decides beside `hpa+vpa` and never acts. `Serve`: it acts once it is proven.
    pub mode: LearningMode,
    /// Length of an episode, whose mean reward counts.
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub episode_length: String,
    /// The latest episodes of a stage, over which mean and deviation are taken.
    #[schemars(range(min = 2, max = 1000))]
    pub episodes: u32,
    /// Mean reward of episodes of `hpa+vpa` that ends the stage `Offline`: below it, the workload has
    /// problems that no policy should learn from.
    #[schemars(regex(pattern = r"^-?[0-9]+(\.[0-9]+)?$"))]
    pub online_reward: String,
    /// Mean reward below which a policy that serves gives way to `hpa+vpa`.
    #[schemars(regex(pattern = r"^-?[0-9]+(\.[0-9]+)?$"))]
    pub serving_reward: String,
    /// Standard deviation of rewards above which a policy that serves gives way to `hpa+vpa`.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))]
    pub serving_deviation: String,
    /// A policy serves only if the lower bound of its value, by off-policy evaluation, is at least the
    /// value of `hpa+vpa` minus this.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))]
    pub activation_margin: String,
    /// Episodes in one stage after which thresholds that were never met are reported.
    #[schemars(range(min = 2, max = 1_000_000))]
    pub patience: u32,
}

/// Whether a learned policy acts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LearningMode {
    /// It never acts.
    Shadow,
    /// It acts once it is proven.
    #[default]
    Serve,
}

impl Default for LearningSpec {
    fn default() -> Self {
        Self {
            mode: LearningMode::default(),
            episode_length: "15m".to_owned(),
            episodes: 5,
            online_reward: "0.5".to_owned(),
            serving_reward: "0.5".to_owned(),
            serving_deviation: "0.2".to_owned(),
            activation_margin: "0".to_owned(),
            patience: 100,
        }
    }
}
