//! The reasons why pods keep their size for now.

use std::fmt;

use homeostat_core::SimDuration;

/// Why no more pods are changed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// The mode changes nothing.
    Mode,
    /// Only new pods are sized.
    InitialOnly,
    /// The server cannot resize pods, and the update mode does not allow evictions.
    CannotResize,
    /// The remaining pods cannot be resized in place, and the update mode does not allow evictions.
    ResizeRefused,
    /// Changes wait for the next maintenance window.
    OutsideMaintenance,
    /// The maximum number of pods is unavailable.
    Unavailable {
        /// The maximum.
        max: u32,
    },
    /// The maximum number of evictions per hour is reached.
    EvictionRate {
        /// The maximum.
        max: u32,
        /// Time until the next one is allowed.
        remaining: SimDuration,
    },
    /// The remaining pods are too young.
    TooYoung,
    /// The canaries are under observation.
    Canary {
        /// For how long still.
        remaining: SimDuration,
    },
    /// The SLO was violated with the canaries.
    CanaryFailed,
    /// The server does not know the webhook yet, so new pods would have the old size.
    WebhookUnknown,
    /// New pods after an eviction have the old size, so evictions are useless.
    NotSizedAtCreation,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode => write!(f, "the mode changes nothing"),
            Self::InitialOnly => write!(f, "update mode Initial sizes new pods only"),
            Self::CannotResize => {
                write!(
                    f,
                    "the server cannot resize pods, and update mode InPlace does not evict them"
                )
            }
            Self::ResizeRefused => write!(
                f,
                "the remaining pods cannot be resized in place, and update mode InPlace does not \
                 evict them"
            ),
            Self::OutsideMaintenance => write!(f, "changes wait for the next maintenance window"),
            Self::Unavailable { max } => write!(f, "at most {max} pods may be unavailable at once"),
            Self::EvictionRate { max, remaining } => write!(
                f,
                "at most {max} evictions per hour, the next in {:.0}s",
                remaining.seconds()
            ),
            Self::TooYoung => write!(f, "the remaining pods are younger than minPodAge"),
            Self::Canary { remaining } => {
                write!(f, "the canaries are observed for another {:.0}s", remaining.seconds())
            }
            Self::CanaryFailed => write!(f, "the SLO was violated with the canaries"),
            Self::WebhookUnknown => write!(
                f,
                "the API server does not know the admission webhook yet, and new pods would have the \
                 old size: is there a webhook configuration?"
            ),
            Self::NotSizedAtCreation => write!(
                f,
                "new pods after an eviction have the old size: is the admission webhook up?"
            ),
        }
    }
}
