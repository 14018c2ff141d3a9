//! GPUs through NVML, the library of NVIDIA's driver. It is loaded when it is needed: the program starts
//! on machines without it.

use homeostat_decide::{Decision, GpuClock, Megahertz};
use nvml_wrapper::enum_wrappers::device::{Clock, PerformanceState};
use nvml_wrapper::enums::device::GpuLockedClocksSetting;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use crate::gpu::{Gpu, GpuError, GpuSample, PowerLimit};

/// The longest list of clocks that the binding reads. It takes the driver's error for a longer list for a
/// success: what it then returns is cut off, or zeros.
const MAX_LISTED: usize = 128;
/// Cards with longer lists (Volta: 187 clocks, 7 and 8 MHz apart by turns) support every clock this far
/// apart, from the highest on.
const STEP_MHZ: u32 = 15;

/// Why there is no NVML.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// No library.
    #[error(
        "NVML cannot be loaded ({0}): libnvidia-ml.so.1 comes with NVIDIA's driver; install it, or start \
         the container with access to GPUs (NVIDIA_DRIVER_CAPABILITIES=utility)"
    )]
    Missing(String),
    /// A library without its kernel module.
    #[error(
        "NVIDIA's driver is not loaded: `modprobe nvidia`, and `nvidia-smi` must list the GPUs"
    )]
    NotLoaded,
    /// Anything else.
    #[error("NVML does not start: {0}")]
    Other(String),
}

/// NVIDIA's driver.
#[derive(Debug)]
pub struct Driver {
    nvml: Nvml,
}

impl Driver {
    /// Loads NVML.
    pub fn open() -> Result<Self, DriverError> {
        let nvml = Nvml::init().map_err(|error| match error {
            NvmlError::LibloadingError(problem) => DriverError::Missing(problem.to_string()),
            NvmlError::DriverNotLoaded => DriverError::NotLoaded,
            other => DriverError::Other(other.to_string()),
        })?;
        Ok(Self { nvml })
    }

    /// The version of the driver.
    pub fn version(&self) -> Result<String, GpuError> {
        self.nvml.sys_driver_version().map_err(|error| failed("read its driver's version", error))
    }

    /// Every GPU by index; an error in place of one that does not answer.
    pub fn gpus(&self) -> Result<Vec<Result<NvmlGpu<'_>, GpuError>>, GpuError> {
        let count = self.nvml.device_count().map_err(|error| failed("count devices", error))?;
        let gpu = |index| {
            let device = self.nvml.device_by_index(index);
            NvmlGpu::new(device.map_err(|error| failed("be opened", error))?)
        };
        Ok((0..count).map(gpu).collect())
    }
}

/// One GPU.
#[derive(Debug)]
pub struct NvmlGpu<'nvml> {
    device: Device<'nvml>,
    uuid: String,
    name: String,
}

impl<'nvml> NvmlGpu<'nvml> {
    fn new(device: Device<'nvml>) -> Result<Self, GpuError> {
        let uuid = device.uuid().map_err(|error| failed("read its UUID", error))?;
        let name = device.name().map_err(|error| failed("read its name", error))?;
        Ok(Self { device, uuid, name })
    }

    /// Whether the driver stays loaded without a client.
    pub fn is_persistent(&self) -> Result<bool, GpuError> {
        self.device.is_in_persistent_mode().map_err(|error| failed("read its persistence", error))
    }

    /// The memory clocks it supports, MHz.
    pub fn memory_clocks(&self) -> Result<Vec<u32>, GpuError> {
        let what = "list its memory clocks";
        self.device.supported_memory_clocks().map_err(|error| failed(what, error))
    }

    /// The limit of power by default, mW.
    pub fn default_power_limit(&self) -> Result<u32, GpuError> {
        let what = "read its default power limit";
        self.device.power_management_limit_default().map_err(|error| failed(what, error))
    }
}

impl Gpu for NvmlGpu<'_> {
    fn uuid(&self) -> &str {
        &self.uuid
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// Those at the highest memory clock, which the driver uses under load.
    fn supported_clocks(&self) -> Result<Vec<Megahertz>, GpuError> {
        let memory = self.memory_clocks()?.into_iter().max().unwrap_or(0);
        let clocks = self.device.supported_graphics_clocks(memory);
        let mut clocks = clocks.map_err(|error| failed("list its clocks", error))?;
        if clocks.len() >= MAX_LISTED {
            let range =
                self.device.min_max_clock_of_pstate(Clock::Graphics, PerformanceState::Zero);
            let (low, high) = range.map_err(|error| failed("read its range of clocks", error))?;
            let steps = high.saturating_sub(low) / STEP_MHZ;
            clocks = (0..=steps).map(|step| high - step * STEP_MHZ).collect();
        }
        Ok(clocks.into_iter().map(Megahertz).collect())
    }

    fn sample(&self) -> Result<GpuSample, GpuError> {
        let device = &self.device;
        Ok(GpuSample {
            sm_clock: known("read its clock", device.clock_info(Clock::SM))?.map(Megahertz),
            power_w: known("read its power", device.power_usage())?.map(|mw| f64::from(mw) / 1e3),
            energy_j: known("read its energy", device.total_energy_consumption())?
                .map(|mj| mj as f64 / 1e3),
            busy: known("read its utilisation", device.utilization_rates())?
                .map(|rates| f64::from(rates.gpu) / 100.0),
        })
    }

    fn power_limit(&self) -> Result<PowerLimit, GpuError> {
        let error = |error| failed("read its power limit", error);
        let range = self.device.power_management_limit_constraints().map_err(error)?;
        let present = self.device.power_management_limit().map_err(error)?;
        Ok(PowerLimit { present, min: range.min_limit, max: range.max_limit })
    }

    fn apply(&mut self, decision: &Decision<GpuClock>) -> Result<(), GpuError> {
        // From the lowest clock on: an idle device may save power as it would without a limit.
        let min_clock_mhz = self.supported_clocks()?.into_iter().min().map_or(0, |clock| clock.0);
        let max_clock_mhz = decision.applied().0;
        let range = GpuLockedClocksSetting::Numeric { min_clock_mhz, max_clock_mhz };
        let locked = self.device.set_gpu_locked_clocks(range);
        locked.map_err(|error| failed("lock its clock", error))
    }

    fn unlock(&mut self) -> Result<(), GpuError> {
        self.device.reset_gpu_locked_clocks().map_err(|error| failed("unlock its clock", error))
    }

    fn set_power_limit(&mut self, limit: u32) -> Result<(), GpuError> {
        let set = self.device.set_power_management_limit(limit);
        set.map_err(|error| failed("set its power limit", error))
    }
}

/// None where the device has no such figure.
fn known<T>(what: &'static str, read: Result<T, NvmlError>) -> Result<Option<T>, GpuError> {
    match read {
        Ok(figure) => Ok(Some(figure)),
        // MIG devices have no utilisation, and older ones no energy.
        Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => Ok(None),
        Err(error) => Err(failed(what, error)),
    }
}

fn failed(what: &'static str, error: NvmlError) -> GpuError {
    match error {
        NvmlError::NoPermission => GpuError::NoPermission { what },
        NvmlError::NotSupported => {
            let detail = "locked clocks need Volta or newer, not a vGPU";
            GpuError::NotSupported { what, detail }
        }
        NvmlError::FailedToLoadSymbol(_) => {
            GpuError::NotSupported { what, detail: "the driver is too old; update it" }
        }
        NvmlError::GpuLost | NvmlError::ResetRequired => GpuError::Lost { what },
        other => GpuError::Other { what, problem: other.to_string() },
    }
}
