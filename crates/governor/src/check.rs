//! What the machine offers: devices, their clocks, permissions. Reads only.

use std::fmt::Write;

use homeostat_decide::Megahertz;
use serde::Serialize;

use crate::clock_grid::clock_bounds;
use crate::gpu::Gpu;
use crate::nvml::{Driver, NvmlGpu};

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings {
    /// Version of NVIDIA's driver.
    pub driver: String,
    /// Whether this process has CAP_SYS_ADMIN, which changing clocks needs; none if that is not known.
    pub may_change_clocks: Option<bool>,
    /// By index.
    pub gpus: Vec<GpuFindings>,
}

/// One device. What it does not tell is in `problems`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GpuFindings {
    /// As `nvidia-smi -L` counts.
    pub index: usize,
    /// UUID.
    pub uuid: String,
    /// Product name.
    pub name: String,
    /// Clocks at the highest memory clock, MHz, as the driver lists them.
    pub clocks_mhz: Vec<u32>,
    /// Memory clocks, MHz.
    pub memory_clocks_mhz: Vec<u32>,
    /// Lowest and highest clock that decisions choose from.
    pub bounds_mhz: Option<(u32, u32)>,
    /// Distance of the clocks that decisions choose from.
    pub step_mhz: Option<u32>,
    /// Clock of this moment.
    pub sm_clock_mhz: Option<u32>,
    /// Power of this moment.
    pub power_w: Option<f64>,
    /// Energy since the driver was loaded.
    pub energy_j: Option<f64>,
    /// Utilisation.
    pub busy: Option<f64>,
    /// Power limit: as set, by default, lowest, highest, W.
    pub power_limit_w: Option<[f64; 4]>,
    /// Whether the driver stays loaded without a client.
    pub persistent: Option<bool>,
    /// What it did not answer.
    pub problems: Vec<String>,
}

/// Asks every device.
pub fn find(driver: &Driver) -> anyhow::Result<Findings> {
    let gpus = driver.gpus()?.into_iter().enumerate().map(|(index, gpu)| match gpu {
        Ok(gpu) => describe(index, &gpu),
        Err(error) => {
            GpuFindings { index, problems: vec![error.to_string()], ..GpuFindings::default() }
        }
    });
    Ok(Findings {
        driver: driver.version()?,
        may_change_clocks: has_capability(),
        gpus: gpus.collect(),
    })
}

fn describe(index: usize, gpu: &NvmlGpu<'_>) -> GpuFindings {
    let mut problems = Vec::new();
    let mut note = |problem: &dyn std::fmt::Display| problems.push(problem.to_string());
    let clocks = gpu.supported_clocks().inspect_err(|error| note(error)).unwrap_or_default();
    let bounds = match clocks.is_empty() {
        true => None,
        false => clock_bounds(&clocks, None, None).inspect_err(|error| note(error)).ok(),
    };
    let memory = gpu.memory_clocks().unwrap_or_default();
    let sample = gpu.sample().inspect_err(|error| note(error)).unwrap_or_default();
    let limit = gpu.power_limit().inspect_err(|error| note(error)).ok();
    let default_limit = gpu.default_power_limit().inspect_err(|error| note(error)).ok();
    let persistent = gpu.is_persistent().inspect_err(|error| note(error)).ok();
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
    GpuFindings {
        index,
        uuid: gpu.uuid().to_owned(),
        name: gpu.name().to_owned(),
        clocks_mhz: clocks.iter().map(|Megahertz(clock)| *clock).collect(),
        memory_clocks_mhz: memory,
        bounds_mhz: bounds.map(|bounds| (bounds.range.low().0, bounds.range.high().0)),
        step_mhz: bounds.map(|bounds| bounds.step),
        sm_clock_mhz: sample.sm_clock.map(|clock| clock.0),
        power_w: sample.power_w,
        energy_j: sample.energy_j,
        busy: sample.busy,
        power_limit_w: limit
            .zip(default_limit)
            .map(|(limit, default)| [limit.present, default, limit.min, limit.max].map(watts)),
        persistent,
        problems,
    }
}

/// CAP_SYS_ADMIN, as the kernel reports it for this process. The driver may refuse all the same.
fn has_capability() -> Option<bool> {
    const SYS_ADMIN: u32 = 21;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let capabilities = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(capabilities >> SYS_ADMIN & 1 == 1)
}

impl Findings {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes everything");
        line(format!("driver {}, {} GPUs", self.driver, self.gpus.len()));
        line(match self.may_change_clocks {
            Some(true) => "this process has CAP_SYS_ADMIN, which changing clocks needs".to_owned(),
            Some(false) => {
                "this process lacks CAP_SYS_ADMIN: it can read, and --act will need root".to_owned()
            }
            None => "the capabilities of this process are unknown".to_owned(),
        });
        for gpu in &self.gpus {
            line(format!("{}: {}  {}", gpu.index, gpu.uuid, gpu.name));
            if let (Some((low, high)), Some(step)) = (gpu.bounds_mhz, gpu.step_mhz) {
                let count = gpu.clocks_mhz.len();
                line(format!(
                    "   clocks from {low} to {high} MHz, {count} of them; steps of {step} MHz"
                ));
            }
            let known = |figure: Option<f64>, unit: &str| {
                figure.map_or("unknown".to_owned(), |figure| format!("{figure:.0} {unit}"))
            };
            line(format!(
                "   now: clock {}, power {}, busy {}",
                known(gpu.sm_clock_mhz.map(f64::from), "MHz"),
                known(gpu.power_w, "W"),
                known(gpu.busy.map(|busy| busy * 100.0), "%"),
            ));
            if let Some([present, default, min, max]) = gpu.power_limit_w {
                line(format!(
                    "   power limit {present} W (default {default}, possible {min} to {max})"
                ));
            }
            if gpu.persistent == Some(false) {
                line(
                    "   persistence mode is off; a running governor keeps the driver loaded"
                        .to_owned(),
                );
            }
            for problem in &gpu.problems {
                line(format!("   {problem}"));
            }
        }
        text
    }
}
