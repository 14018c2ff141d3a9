//! The governor of one device: observation, decision, and its execution.

use homeostat_core::SimTime;
use homeostat_decide::{
    CoolDownConfig, Decision, GpuClock, GpuObservation, Guards, GuardsConfig, Megahertz,
    MetricsStatus, ModelLatency, Pause, decide,
};
use homeostat_muserve::govern::{HighestWithoutLatency, Miad, MiadConfig};

use crate::clock_grid::clock_bounds;
use crate::gpu::{Gpu, GpuError, GpuSample, PowerLimit};
use crate::lease::{Former, Lease, LeaseError, LockedDevice};
use crate::process_identity::ProcessIdentity;
use crate::restore::{RestoreError, carry_out};
use crate::settings::{DeviceSettings, Objective, Settings};
use crate::signal::{Latency, Signal};

/// A device with less utilisation than this is idle.
const IDLE_BELOW: f64 = 0.05;

/// Why a device cannot be governed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The device refused.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// Its clocks and the settings do not go together.
    #[error(transparent)]
    Grid(#[from] crate::clock_grid::GridError),
    /// It has an owner, or no lease can be written.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A power limit that it does not support.
    #[error("power_limit_w = {}: the GPU supports {} to {} W", f64::from(*.limit) / 1e3, f64::from(.range.min) / 1e3, f64::from(.range.max) / 1e3)]
    Power {
        /// mW.
        limit: u32,
        /// What is possible.
        range: PowerLimit,
    },
    /// Nothing can be known about this process.
    #[error("cannot tell this process from others: {0}")]
    Process(#[from] std::io::Error),
    /// Settings of guards or policy.
    #[error("{0}")]
    Settings(String),
}

/// What happened in one period.
#[derive(Debug, Clone)]
pub struct Step {
    /// What was seen.
    pub obs: GpuObservation,
    /// What was decided.
    pub decision: Decision<GpuClock>,
    /// What the device measured.
    pub sample: GpuSample,
}

/// Governs one device. Dropped, it restores the device.
#[derive(Debug)]
pub struct DeviceGovernor<G: Gpu> {
    gpu: G,
    lease: Option<(LockedDevice, Lease)>,
    objectives: Vec<usize>,
    policy: HighestWithoutLatency<Miad>,
    guards: DeviceGuards,
    /// As last applied: without a lease always the highest.
    clock: Megahertz,
}

/// Guards with the configuration they were made of, which the pause changes.
struct DeviceGuards {
    guards: Guards<GpuClock>,
    config: GuardsConfig<GpuClock>,
}

impl std::fmt::Debug for DeviceGuards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.config.fmt(f)
    }
}

impl<G: Gpu> DeviceGovernor<G> {
    /// A governor in a dry run: it decides and carries nothing out.
    pub fn new(gpu: G, device: &DeviceSettings, settings: &Settings) -> Result<Self, StartError> {
        let bounds = clock_bounds(&gpu.supported_clocks()?, device.min_mhz, device.max_mhz)?;
        if let Some(limit) = device.power_limit_mw {
            let range = gpu.power_limit()?;
            if !(range.min..=range.max).contains(&limit) {
                return Err(StartError::Power { limit, range });
            }
        }
        let refused = |error: &dyn std::fmt::Display| StartError::Settings(error.to_string());
        // Guards round up to a step of the device: a shorter one would never lower the clock.
        let step = settings.miad.step;
        let step = if bounds.step == 0 { step } else { rounded_up(step, bounds.step.into()) };
        let governor =
            MiadConfig { step, ..settings.miad }.build().map_err(|error| refused(&error))?;
        let config = GuardsConfig {
            stale_metrics_hold: settings.hold,
            cool_down: CoolDownConfig { down: settings.cool_down, ..CoolDownConfig::default() },
            rate_limit: Some(settings.rate_limit),
            hold_while_violated: true,
            ..GuardsConfig::bounds_only(bounds)
        };
        let guards = Guards::try_new(config.clone()).map_err(|error| refused(&error))?;
        let highest = bounds.range.high();
        Ok(Self {
            gpu,
            lease: None,
            objectives: device.objectives.clone(),
            policy: HighestWithoutLatency { governor, highest },
            guards: DeviceGuards { guards, config },
            clock: highest,
        })
    }

    /// From now on decisions are carried out. What is changed is on the disk before it changes.
    pub fn act(&mut self, locked: LockedDevice, device: &DeviceSettings) -> Result<(), StartError> {
        let power_limit_mw = match device.power_limit_mw {
            Some(_) => Some(self.gpu.power_limit()?.present),
            None => None,
        };
        let lease = Lease {
            uuid: self.gpu.uuid().to_owned(),
            gpu: self.gpu.name().to_owned(),
            power_limit_mw,
            owner: ProcessIdentity::own()?,
        };
        locked.write(&lease)?;
        // Unlocking shows whether this process may change clocks, and makes the highest one true.
        if let Err(error) = self.gpu.unlock() {
            locked.clear()?;
            return Err(error.into());
        }
        self.lease = Some((locked, lease));
        device.power_limit_mw.map_or(Ok(()), |limit| self.gpu.set_power_limit(limit))?;
        Ok(())
    }

    /// Observes, decides, and carries the decision out if it acts. After an error the clock is as it was.
    pub fn step(
        &mut self,
        now: SimTime,
        signal: &Signal,
        objectives: &[Objective],
        pause: Option<Pause>,
    ) -> Result<Step, GpuError> {
        let sample = self.gpu.sample()?;
        let obs = self.observe(now, signal, objectives, &sample);
        let DeviceGuards { guards, config } = &mut self.guards;
        if config.pause != pause {
            config.pause = pause;
            guards
                .reconfigure(config.clone())
                .expect("they were checked, and a pause is always valid");
        }
        let decision = decide(&mut self.policy, guards, &obs);
        if self.lease.is_some() && decision.is_change() {
            self.gpu.apply(&decision)?;
            self.clock = *decision.applied();
        }
        Ok(Step { obs, decision, sample })
    }

    fn observe(
        &self,
        now: SimTime,
        signal: &Signal,
        objectives: &[Objective],
        sample: &GpuSample,
    ) -> GpuObservation {
        let latencies: Vec<Latency> =
            self.objectives.iter().map(|place| signal.latency(now, *place)).collect();
        let is = |wanted: Latency| move |latency: &Latency| *latency == wanted;
        // What a device without utilisation does is not known.
        let busy = sample.busy.unwrap_or(1.0);
        // A busy device whose requests do not finish is not idle: they may be late already.
        let is_stuck = latencies.iter().all(is(Latency::NoRequests)) && busy >= IDLE_BELOW;
        let is_known = !is_stuck && !latencies.iter().any(is(Latency::Unknown));
        let model = |(place, latency): (&usize, &Latency)| {
            let Objective { name, slo, weight, .. } = &objectives[*place];
            let latency = match latency {
                Latency::Known(latency) => Some(*latency),
                Latency::NoRequests | Latency::Unknown => None,
            };
            ModelLatency { model: name.clone(), slo: *slo, latency, weight: *weight }
        };
        GpuObservation {
            now,
            clock: self.clock,
            models: self.objectives.iter().zip(&latencies).map(model).collect(),
            busy,
            power_w: sample.power_w,
            metrics: match is_known {
                true => MetricsStatus::Complete,
                false => MetricsStatus::UtilizationOnly,
            },
        }
    }

    /// Restores the device and removes its lease. A device that refuses keeps it.
    pub fn give_back(&mut self) -> Result<(), RestoreError> {
        let Some((locked, lease)) = &self.lease else { return Ok(()) };
        // Not what the file says: it may have been removed.
        carry_out(&Former::Lease(lease.clone()), &mut self.gpu)
            .map_err(|source| RestoreError::Gpu { uuid: lease.uuid.clone(), source })?;
        locked.clear()?;
        self.lease = None;
        Ok(())
    }

    /// Whether decisions are carried out.
    pub fn is_acting(&self) -> bool {
        self.lease.is_some()
    }
}

impl<G: Gpu> Drop for DeviceGovernor<G> {
    /// After an error, or a panic.
    fn drop(&mut self) {
        if let Err(error) = self.give_back() {
            tracing::error!("{error}");
        }
    }
}

fn rounded_up(value: f64, unit: f64) -> f64 {
    (value / unit).ceil() * unit
}
