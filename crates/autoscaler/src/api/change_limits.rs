//! How often and how far a recommendation may change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often and how far a recommendation may change, in addition to what always applies: the number
/// of pods at most doubles (or grows by four) and at most halves. A rollback ignores cool-downs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeLimits {
    /// How long each dimension stays as it is after a change.
    #[serde(default)]
    pub cool_down: CoolDownLimits,
    /// Maximum number of changes in a period; no limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// Largest change of the CPU, and of the memory, of a pod in one step, in percent of what it has,
    /// such as `50%`; no limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9]+%$"))]
    pub max_size_step: Option<String>,
}

/// How long the number of pods, their CPU and their memory, each on its own, stay after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoolDownLimits {
    /// After an increase it does not increase again for this long.
    #[serde(default = "CoolDownLimits::off")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub up: String,
    /// After a change in any direction it does not decrease for this long.
    #[serde(default = "CoolDownLimits::off")]
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub down: String,
}

impl CoolDownLimits {
    fn off() -> String {
        "0s".to_owned()
    }
}

impl Default for CoolDownLimits {
    fn default() -> Self {
        Self { up: Self::off(), down: Self::off() }
    }
}

/// Maximum number of changes in a period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateLimit {
    /// How many recommendations in the period may differ from the one before.
    #[schemars(range(min = 1, max = 1000))]
    pub changes: u32,
    /// The period, such as `1h`.
    #[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"))]
    pub period: String,
}
