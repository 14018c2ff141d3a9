//! What the seven types of anomalies do to a replica at full intensity (dissertation, Table 3.4).

use homeostat_anomalies::AnomalyKind;
use homeostat_decide::ContainerResource;

/// The resource that an anomaly takes from a replica; none for load and delay.
pub fn stressed_resource(kind: AnomalyKind) -> Option<ContainerResource> {
    match kind {
        AnomalyKind::Workload | AnomalyKind::NetworkDelay => None,
        AnomalyKind::Cpu => Some(ContainerResource::Cpu),
        AnomalyKind::Cache => Some(ContainerResource::Cache),
        AnomalyKind::MemoryBandwidth => Some(ContainerResource::MemoryBandwidth),
        AnomalyKind::Disk => Some(ContainerResource::Disk),
        AnomalyKind::NetworkBandwidth => Some(ContainerResource::Network),
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
