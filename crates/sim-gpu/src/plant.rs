//! The plant that governors control: the devices of a cluster under load.

use std::collections::VecDeque;
use std::iter::Peekable;

use homeostat_core::{Bounds, SeedTree, SimDuration, SimTime};
use homeostat_decide::{
    ClockBounds, Decision, Figure, GpuClock, GpuObservation, MeasuredPlant, MeasuredSource,
    Megahertz, MetricsStatus, ModelLatency, Plant,
};

use crate::operator::Work;
use crate::planned_load::PlannedLoad;
use crate::serving::{Deployment, Finished, Request, Serving};
use crate::totals::{DeviceTotals, DeviceWindow, GpuTotals, ModelTotals};
use crate::{Error, GpuPlan, Result};

/// Executors under load. Its targets are the executors of a deployment, in their order.
pub struct GpuPlant {
    serving: Serving,
    requests: Peekable<Box<dyn Iterator<Item = Request> + Send>>,
    windows: PlantWindows,
    /// Answers of the latency window, per model.
    recent: Vec<VecDeque<(SimTime, SimDuration)>>,
    observations: Vec<GpuObservation>,
    /// The names of the executors with their models.
    names: Vec<String>,
    bounds: Vec<ClockBounds>,
    /// The models of each executor, with the part of their time that they spend there.
    placed: Vec<Vec<(usize, f64)>>,
    models: Vec<ModelTotals>,
    devices: Vec<DeviceTotals>,
}

/// What a governor sees, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlantWindows {
    /// Between two decisions.
    pub window: SimDuration,
    /// Of the answers whose 99th percentile a governor sees.
    pub latency: SimDuration,
}

impl GpuPlant {
    /// A deployment at its highest clocks, and the requests that it gets in order of arrival.
    pub fn new(
        deployment: Deployment,
        requests: Box<dyn Iterator<Item = Request> + Send>,
        windows: PlantWindows,
    ) -> Result<Self> {
        if windows.window == SimDuration::ZERO || windows.latency < windows.window {
            let expected = "above zero, and the latency's no shorter than that of decisions";
            return Err(Error::setting("windows", windows.window, expected));
        }
        deployment.validate()?;
        let placed = parts_of_time(&deployment);
        let mut bounds = Vec::new();
        for executor in &deployment.executors {
            let [low, high] = executor.device.clocks.map(Megahertz);
            let range = Bounds::try_new(low, high)?;
            bounds.push(ClockBounds { range, step: executor.device.clock_step });
        }
        let name = |(number, models): (usize, &Vec<(usize, f64)>)| {
            let models = models.iter().map(|(model, _)| deployment.models[*model].name.as_str());
            format!("device {number} ({})", models.collect::<Vec<_>>().join(", "))
        };
        let mut plant = Self {
            names: placed.iter().enumerate().map(name).collect(),
            recent: vec![VecDeque::new(); deployment.models.len()],
            models: vec![ModelTotals::default(); deployment.models.len()],
            devices: deployment.executors.iter().map(DeviceTotals::of_idle).collect(),
            observations: Vec::new(),
            requests: requests.peekable(),
            serving: Serving::new(deployment)?,
            windows,
            bounds,
            placed,
        };
        plant.observe_devices(SimDuration::ZERO);
        Ok(plant)
    }

    /// These devices of a plan, under its load.
    pub fn of_plan(plan: &GpuPlan, devices: &[usize], seeds: &SeedTree) -> Result<Self> {
        let load = PlannedLoad::new(plan, devices, seeds)?;
        Self::new(plan.deployment(devices), Box::new(load), plan.windows())
    }

    /// The exact figures of the last window.
    pub fn last_window(&self) -> DeviceWindow {
        DeviceWindow {
            answered: self.models.iter().map(|model| model.answered).sum(),
            slo_violations: self.models.iter().map(|model| model.slo_violations).sum(),
            power_w: self.devices.iter().map(|device| device.power_w).sum(),
        }
    }

    /// Requests that are queued or run.
    pub fn inside(&self) -> u64 {
        self.serving.inside()
    }

    /// The exact figures since the start, of all devices.
    pub fn all_totals(&self) -> GpuTotals {
        let devices: Vec<_> = self.devices.iter().collect();
        let models = self.models.iter().zip(self.serving.rejected_and_late());
        GpuTotals::of(&devices, &models.collect::<Vec<_>>())
    }

    /// The exact figures since the start, of a device and its models.
    fn device_totals(&self, device: usize) -> GpuTotals {
        let rejected = self.serving.rejected_and_late();
        let placed = self.placed[device].iter();
        let models: Vec<_> =
            placed.map(|(model, _)| (&self.models[*model], rejected[*model])).collect();
        GpuTotals::of(&[&self.devices[device]], &models)
    }

    /// Submits the requests of the window.
    fn submit_until(&mut self, until: SimTime) -> Result<()> {
        while let Some(request) = self.requests.next_if(|request| request.arrival <= until) {
            self.serving.submit(request)?;
        }
        Ok(())
    }

    fn settle(&mut self, window: SimDuration) {
        let now = self.serving.now();
        for model in &mut self.models {
            (model.answered, model.slo_violations) = (0, 0);
        }
        for Finished { model, latency, .. } in self.serving.take_finished() {
            let model = model as usize;
            let slo = self.serving.models()[model].slo;
            let totals = &mut self.models[model];
            totals.answered += 1;
            totals.slo_violations += u64::from(latency > slo);
            totals.latency_over_slo.push((latency.seconds() / slo.seconds()) as f32);
            self.recent[model].push_back((now, latency));
        }
        let keep = self.windows.latency;
        for recent in &mut self.recent {
            while recent.front().is_some_and(|(at, _)| *at + keep <= now) {
                recent.pop_front();
            }
        }
        self.observe_devices(window);
    }

    fn observe_devices(&mut self, window: SimDuration) {
        let mut latencies: Vec<Option<SimDuration>> = Vec::new();
        for recent in &self.recent {
            let mut sorted: Vec<SimDuration> = recent.iter().map(|(_, latency)| *latency).collect();
            sorted.sort_unstable();
            // The least that is not exceeded by more than a hundredth.
            let rank = (sorted.len() * 99).div_ceil(100);
            latencies.push(rank.checked_sub(1).map(|place| sorted[place]));
        }
        let mut observations = Vec::new();
        for executor in 0..self.serving.executors() {
            let (energy_j, busy) = (self.serving.energy_j(executor), self.serving.busy(executor));
            let (seconds, busy_s) = (window.seconds(), busy.seconds());
            let clock = self.serving.clock(executor);
            let before = self.devices[executor];
            let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
            self.devices[executor] = DeviceTotals {
                power_w: per_second(energy_j - before.energy_j),
                busy: per_second(busy_s - before.busy_s),
                energy_j,
                busy_s,
                idle_w: before.idle_w,
                mhz_seconds: before.mhz_seconds + f64::from(clock) * seconds,
                seconds: before.seconds + seconds,
            };
            let of_model = |(model, weight): &(usize, f64)| ModelLatency {
                model: self.serving.models()[*model].name.clone(),
                slo: self.serving.models()[*model].slo,
                latency: latencies[*model],
                weight: *weight,
            };
            observations.push(GpuObservation {
                now: self.serving.now(),
                clock: Megahertz(clock),
                models: self.placed[executor].iter().map(of_model).collect(),
                busy: self.devices[executor].busy,
                power_w: (seconds > 0.0).then_some(self.devices[executor].power_w),
                metrics: MetricsStatus::Complete,
            });
        }
        self.observations = observations;
    }
}

/// The models of each executor, with the part of a request's time that they spend there: a query of 128
/// tokens, or a token after as many, at the highest clock, in the mean over the copies of the model.
fn parts_of_time(deployment: &Deployment) -> Vec<Vec<(usize, f64)>> {
    let mut parts = vec![vec![0.0; deployment.models.len()]; deployment.executors.len()];
    for instance in &deployment.instances {
        let work = match instance.cache_tokens {
            None => Work::prefill(128.0, 128.0 * 128.0),
            Some(_) => Work::decode(1.0, 128.0),
        };
        let seconds = |stage: &crate::Stage| {
            let device = &deployment.executors[stage.executor].device;
            stage.cost.of_work(work).seconds(device, device.max_clock())
        };
        let all: f64 = instance.stages.iter().map(seconds).sum();
        let same = deployment.instances.iter().filter(|other| other.model == instance.model);
        let copies = same.count() as f64;
        for stage in &instance.stages {
            parts[stage.executor][instance.model] += seconds(stage) / all / copies;
        }
    }
    let with_part =
        |parts: Vec<f64>| parts.into_iter().enumerate().filter(|(_, part)| *part > 0.0).collect();
    parts.into_iter().map(with_part).collect()
}

impl Plant<GpuClock> for GpuPlant {
    type Error = homeostat_decide::Error;

    fn targets(&self) -> usize {
        self.observations.len()
    }

    fn advance(&mut self) -> homeostat_decide::Result<()> {
        let window = self.windows.window;
        let until = self.serving.now() + window;
        self.submit_until(until)?;
        self.serving.advance(until);
        self.settle(window);
        Ok(())
    }

    fn observe(&self, target: usize) -> &GpuObservation {
        &self.observations[target]
    }

    fn apply(
        &mut self,
        target: usize,
        decision: &Decision<GpuClock>,
    ) -> homeostat_decide::Result<Megahertz> {
        let clock = self.serving.apply(target, decision);
        self.observations[target].clock = clock;
        Ok(clock)
    }
}

impl MeasuredPlant<GpuClock> for GpuPlant {
    fn name(&self, target: usize) -> &str {
        &self.names[target]
    }

    fn bounds(&self, target: usize) -> ClockBounds {
        self.bounds[target]
    }

    fn window(&self, target: usize) -> Vec<Figure> {
        let models = self.placed[target].iter().map(|(model, _)| &self.models[*model]);
        let counts = models.fold((0, 0), |(answered, late), model| {
            (answered + model.answered, late + model.slo_violations)
        });
        vec![
            ("answered", counts.0 as f64),
            ("slo_violations", counts.1 as f64),
            ("power_w", self.devices[target].power_w),
            ("busy_ratio", self.devices[target].busy),
        ]
    }

    fn totals(&mut self, target: usize) -> Vec<Figure> {
        self.device_totals(target).figures()
    }

    fn system_totals(&mut self) -> Vec<Figure> {
        self.all_totals().figures()
    }
}

impl MeasuredSource<GpuClock> for GpuPlan {
    fn targets(&self) -> usize {
        self.devices()
    }

    fn window(&self) -> SimDuration {
        self.windows().window
    }

    fn load(&self) -> String {
        self.config().load.name().to_owned()
    }

    fn make(&self, seeds: &SeedTree) -> homeostat_decide::Result<Box<dyn MeasuredPlant<GpuClock>>> {
        let devices: Vec<usize> = (0..self.devices()).collect();
        Ok(Box::new(GpuPlant::of_plan(self, &devices, seeds)?))
    }
}
