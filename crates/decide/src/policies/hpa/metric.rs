//! What the horizontal autoscaler measures.

use std::fmt;

use crate::{Error, Result};

/// A metric with its target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HpaMetric {
    /// CPU use as a percentage of the request, mean over the replicas.
    CpuUtilization {
        /// Whole percent, as Kubernetes takes it.
        target_percent: u32,
    },
    /// Memory use as a percentage of the request, mean over the replicas.
    MemoryUtilization {
        /// Whole percent, as Kubernetes takes it.
        target_percent: u32,
    },
    /// Requests in the system for each replica.
    Concurrency {
        /// Requests.
        target: f64,
    },
    /// Requests per second for each replica.
    Arrivals {
        /// Requests per second.
        target: f64,
    },
    /// The answer to a query, for each replica.
    Query {
        /// Which query of the observation.
        index: usize,
        /// The answer, divided by the replicas.
        target: f64,
    },
}

impl HpaMetric {
    /// The target as a number, in percent for a utilisation.
    pub fn target(&self) -> f64 {
        match self {
            Self::CpuUtilization { target_percent }
            | Self::MemoryUtilization { target_percent } => f64::from(*target_percent),
            Self::Concurrency { target }
            | Self::Arrivals { target }
            | Self::Query { target, .. } => *target,
        }
    }

    pub(super) fn validate(&self) -> Result<()> {
        Error::unless_positive("target of a metric", self.target())
    }

    /// The measured value beside the target, in words.
    pub(crate) fn against(&self, measured: f64) -> String {
        let target = self.target();
        match self {
            Self::CpuUtilization { .. } | Self::MemoryUtilization { .. } => {
                format!("{self} {measured:.0}% against a target of {target}%")
            }
            Self::Concurrency { .. } | Self::Arrivals { .. } | Self::Query { .. } => {
                format!("{self} {measured:.2} against a target of {target}")
            }
        }
    }
}

impl fmt::Display for HpaMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CpuUtilization { .. } => "CPU utilisation",
            Self::MemoryUtilization { .. } => "memory utilisation",
            Self::Concurrency { .. } => "concurrency per replica",
            Self::Arrivals { .. } => "arrivals per second and replica",
            Self::Query { index, .. } => {
                return write!(f, "query {} per replica", index + 1);
            }
        })
    }
}
