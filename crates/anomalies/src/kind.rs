//! The seven types of performance anomalies (dissertation, Table 3.4).

use std::fmt;

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

    /// Place in [`AnomalyKind::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

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
}

impl fmt::Display for AnomalyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
