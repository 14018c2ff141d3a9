//! How long operations of the platform take (dissertation, Table 3.5).

use homeostat_core::{SimDuration, Stream};
use homeostat_decide::ContainerResource;

/// Mean and standard deviation in milliseconds of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delay {
    /// Mean.
    pub mean_ms: f64,
    /// Standard deviation.
    pub deviation_ms: f64,
}

/// Start of a container whose image is on the node.
pub const WARM_START: Delay = Delay { mean_ms: 45.7, deviation_ms: 6.9 };
/// Start of a container on a node that has not run its service yet.
pub const COLD_START: Delay = Delay { mean_ms: 2050.8, deviation_ms: 291.4 };

impl Delay {
    /// A change of the limit of a resource.
    pub const fn of_limit(resource: ContainerResource) -> Self {
        let (mean_ms, deviation_ms) = match resource {
            ContainerResource::Cpu => (2.1, 0.3),
            ContainerResource::MemoryBandwidth => (42.4, 11.0),
            ContainerResource::Cache => (39.8, 9.2),
            ContainerResource::Disk => (2.3, 0.4),
            ContainerResource::Network => (12.3, 1.1),
        };
        Self { mean_ms, deviation_ms }
    }

    /// Draws from a normal distribution, cut off at zero.
    pub(crate) fn draw(self, rng: &mut Stream) -> SimDuration {
        let ms = self.deviation_ms.mul_add(rng.normal(), self.mean_ms).max(0.0);
        SimDuration::from_nanos((ms * 1e6) as u64)
    }
}
