//! The seven types of performance anomalies that FIRM injects (dissertation, Table 3.4).

use std::fmt;

use homeostat_decide::ContainerResource;
use serde::{Deserialize, Serialize};

/// What is injected into one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnomalyKind {
    /// More requests of every type that needs the replica's service.
    Workload,
    /// Messages to and from the replica are delayed, by a normal distribution.
    NetworkDelay,
    /// Threads in the replica that compute.
    Cpu,
    /// Threads in the replica that fill its cache.
    Cache,
    /// Threads in the replica that read and write memory.
    MemoryBandwidth,
    /// Streams in the replica that read and write disks.
    Disk,
    /// Streams in the replica that send.
    NetworkBandwidth,
}

impl AnomalyKind {
    /// All types.
    pub const ALL: [Self; 7] = [
        Self::Workload,
        Self::NetworkDelay,
        Self::Cpu,
        Self::Cache,
        Self::MemoryBandwidth,
        Self::Disk,
        Self::NetworkBandwidth,
    ];

    /// The name for files and people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::NetworkDelay => "network-delay",
            Self::Cpu => "cpu",
            Self::Cache => "cache",
            Self::MemoryBandwidth => "memory-bandwidth",
            Self::Disk => "disk",
            Self::NetworkBandwidth => "network-bandwidth",
        }
    }

    /// The resource that it takes from a replica; none for load and delay.
    pub fn resource(self) -> Option<ContainerResource> {
        match self {
            Self::Workload | Self::NetworkDelay => None,
            Self::Cpu => Some(ContainerResource::Cpu),
            Self::Cache => Some(ContainerResource::Cache),
            Self::MemoryBandwidth => Some(ContainerResource::MemoryBandwidth),
            Self::Disk => Some(ContainerResource::Disk),
            Self::NetworkBandwidth => Some(ContainerResource::Network),
        }
    }
}

impl fmt::Display for AnomalyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Load, at full intensity, over the load without the anomaly.
pub(crate) const FULL_LOAD: f64 = 4.0;
/// Mean delay of a message at full intensity, in milliseconds, and its standard deviation over the mean.
pub(crate) const FULL_DELAY_MS: f64 = 100.0;
pub(crate) const DELAY_DEVIATION: f64 = 0.2;
/// What a stressor wants of a resource at full intensity, over the limit of the replica when it starts:
/// enough to leave requests a small part of it.
pub(crate) const FULL_STRESS: f64 = 8.0;
/// Streams of a stressor of disks or network, in fair competition with those of requests, at full intensity.
pub(crate) const FULL_STREAMS: f64 = 64.0;
