//! A policy file that serves as a recommender.

use std::sync::Arc;

use homeostat_rl::Policy;

/// A policy file, compared by its version.
#[derive(Debug, Clone)]
pub struct ServedPolicy {
    /// Its config map and key, and the version of the config map.
    pub version: String,
    /// The policy.
    pub policy: Arc<Policy>,
}

impl PartialEq for ServedPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}
