//! What the governor needs of a GPU.

use homeostat_decide::{Decision, GpuClock, Megahertz};

/// Why a GPU did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// The process may not.
    #[error(
        "no permission to {what}: run the governor as root; in a container, add the capability SYS_ADMIN; \
         without --act it only says what it would do"
    )]
    NoPermission {
        /// What was asked.
        what: &'static str,
    },
    /// The device or the driver cannot do it.
    #[error("this GPU cannot {what}: {detail}")]
    NotSupported {
        /// What was asked.
        what: &'static str,
        /// What can be done about it.
        detail: &'static str,
    },
    /// The device has fallen off the bus.
    #[error(
        "the GPU is lost and cannot {what}: see `dmesg` for its Xid error, and reset it or restart the machine"
    )]
    Lost {
        /// What was asked.
        what: &'static str,
    },
    /// Anything else.
    #[error("cannot {what}: {problem}")]
    Other {
        /// What was asked.
        what: &'static str,
        /// The driver's message.
        problem: String,
    },
}

/// What a device measures of itself; none where it does not say.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GpuSample {
    /// The clock of its multiprocessors at this moment.
    pub sm_clock: Option<Megahertz>,
    /// Power, W.
    pub power_w: Option<f64>,
    /// Energy since the driver was loaded, J.
    pub energy_j: Option<f64>,
    /// Part of the last moments in which it was busy.
    pub busy: Option<f64>,
}

/// The power limit of a device, in milliwatts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerLimit {
    /// As it is set.
    pub present: u32,
    /// The lowest possible.
    pub min: u32,
    /// The highest possible.
    pub max: u32,
}

/// A GPU whose clock can be limited.
pub trait Gpu {
    /// Its UUID, under which it is known whatever the order of devices is.
    fn uuid(&self) -> &str;

    /// Its product name.
    fn name(&self) -> &str;

    /// The clocks it supports, in any order.
    fn supported_clocks(&self) -> Result<Vec<Megahertz>, GpuError>;

    /// Measurements of this moment.
    fn sample(&self) -> Result<GpuSample, GpuError>;

    /// The power limit, as it is set and as it can be set.
    fn power_limit(&self) -> Result<PowerLimit, GpuError>;

    /// Limits the clock to the decided one. An idle device may go lower.
    fn apply(&mut self, decision: &Decision<GpuClock>) -> Result<(), GpuError>;

    /// Takes every limit of the clock away.
    fn unlock(&mut self) -> Result<(), GpuError>;

    /// Sets the power limit, in milliwatts.
    fn set_power_limit(&mut self, limit: u32) -> Result<(), GpuError>;
}
