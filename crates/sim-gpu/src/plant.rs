//! The plant that governors control: the devices of a cluster under load.

use std::collections::VecDeque;

use homeostat_core::{SeedTree, SimDuration, SimTime, Slo, Stream};
use homeostat_decide::{
    Decision, GpuClock, GpuObservation, Megahertz, MetricsStatus, ModelLatency, Plant,
};
use homeostat_load::Arrivals;

use crate::serving::{Finished, Request, Serving};
use crate::{Error, GpuPlan, Result};

/// Devices under load. Its targets are the devices, in the order in which they were asked for.
pub struct GpuPlant {
    plan: GpuPlan,
    serving: Serving,
    sources: Vec<Source>,
    /// Answers of the latency window, per model.
    recent: Vec<VecDeque<(SimTime, SimDuration)>>,
    observations: Vec<GpuObservation>,
    window: DeviceWindow,
    /// Energy and busy time of each device at the end of the last window.
    before: Vec<(f64, SimDuration)>,
    totals: GpuTotals,
}

struct Source {
    arrivals: Arrivals,
    lengths: Stream,
    next: Option<SimTime>,
    prompt_tokens: f64,
    /// Zero for a model that does not generate.
    output_tokens: f64,
    sigma: f64,
}

/// The exact figures of the last window, over all devices.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DeviceWindow {
    /// Requests answered.
    pub answered: u64,
    /// Those beyond their SLO.
    pub slo_violations: u64,
    /// Mean power, W.
    pub power_w: f64,
}

/// The exact figures since the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuTotals {
    /// Requests answered or refused.
    pub requests: u64,
    /// Requests beyond their SLO, refused, or unanswered for longer than their SLO.
    pub slo_violations: u64,
    /// Energy of all devices, J.
    pub energy_j: f64,
    /// Seconds of all devices times their clock in MHz.
    pub mhz_seconds: f64,
    /// Seconds of all devices.
    pub device_seconds: f64,
    /// Latency over the SLO of every answer.
    pub latency_over_slo: Vec<f32>,
}

impl Source {
    fn length(&mut self, mean: f64) -> u32 {
        if mean <= 0.0 {
            return 0;
        }
        let sigma = self.sigma;
        let factor = (sigma * self.lengths.normal() - sigma * sigma / 2.0).exp();
        // The longest request fits into every cache.
        (mean * factor).round().clamp(1.0, 1000.0) as u32
    }
}

impl GpuPlant {
    /// These devices of a plan, at their highest clocks, without requests yet.
    pub fn new(plan: &GpuPlan, devices: &[usize], seeds: &SeedTree) -> Result<Self> {
        let serving = Serving::new(plan.deployment(devices))?;
        let mut sources = Vec::new();
        for (planned, _) in plan.models_on(devices) {
            let own = seeds.child(&format!("gpu/{}", planned.model.name));
            let shape = plan.shape(planned.rate);
            let mut arrivals = Arrivals::new(&shape, own.stream("arrivals")).map_err(|error| {
                Error::setting("gpu.load", format!("{:?}", plan.config().load), &error.to_string())
            })?;
            let generates = planned.model.is_autoregressive;
            sources.push(Source {
                next: arrivals.next_arrival(),
                arrivals,
                lengths: own.stream("lengths"),
                prompt_tokens: plan.config().prompt_tokens,
                output_tokens: if generates { plan.config().output_tokens } else { 0.0 },
                sigma: plan.config().length_sigma,
            });
        }
        let mut plant = Self {
            recent: vec![VecDeque::new(); sources.len()],
            observations: Vec::new(),
            before: vec![(0.0, SimDuration::ZERO); devices.len()],
            window: DeviceWindow::default(),
            totals: GpuTotals::default(),
            plan: plan.clone(),
            serving,
            sources,
        };
        plant.look(SimDuration::ZERO);
        Ok(plant)
    }

    /// The plan.
    pub fn plan(&self) -> &GpuPlan {
        &self.plan
    }

    /// The exact figures of the last window.
    pub fn window(&self) -> DeviceWindow {
        self.window
    }

    /// Requests that are queued or run.
    pub fn inside(&self) -> u64 {
        self.serving.inside()
    }

    /// The exact figures since the start.
    pub fn totals(&self) -> &GpuTotals {
        &self.totals
    }

    /// The SLO of a model: its threshold holds for 99 % of requests.
    pub fn slo(&self, model: usize) -> Option<Slo> {
        let threshold = self.serving.models().get(model)?.slo;
        Slo::try_new(homeostat_core::Fraction::from_percent(99), threshold).ok()
    }

    /// Submits the requests of the window, in order of arrival.
    fn submit_until(&mut self, until: SimTime) -> Result<()> {
        loop {
            let due = |(place, source): (usize, &Source)| Some((source.next?, place));
            let next = self.sources.iter().enumerate().filter_map(due).min();
            let Some((arrival, place)) = next.filter(|(arrival, _)| *arrival <= until) else {
                return Ok(());
            };
            let source = &mut self.sources[place];
            source.next = source.arrivals.next_arrival();
            let (prompt, output) = (source.prompt_tokens, source.output_tokens);
            let (prompt, output) = (source.length(prompt), source.length(output));
            self.serving.submit(Request {
                arrival,
                model: place as u32,
                prompt,
                output,
                rank: 0.0,
            })?;
        }
    }

    fn settle(&mut self, window: SimDuration) {
        let now = self.serving.now();
        self.window = DeviceWindow::default();
        for Finished { model, latency, .. } in self.serving.take_finished() {
            let slo = self.serving.models()[model as usize].slo;
            self.window.answered += 1;
            self.window.slo_violations += u64::from(latency > slo);
            self.totals.latency_over_slo.push((latency.seconds() / slo.seconds()) as f32);
            self.recent[model as usize].push_back((now, latency));
        }
        let keep = SimDuration::from_seconds(self.plan.config().latency_window_s)
            .expect("the settings were validated");
        for recent in &mut self.recent {
            while recent.front().is_some_and(|(at, _)| *at + keep <= now) {
                recent.pop_front();
            }
        }
        self.totals.requests += self.window.answered;
        self.totals.slo_violations += self.window.slo_violations;
        self.look(window);
    }

    fn look(&mut self, window: SimDuration) {
        let mut latencies: Vec<Option<SimDuration>> = Vec::new();
        for recent in &self.recent {
            let mut sorted: Vec<SimDuration> = recent.iter().map(|(_, latency)| *latency).collect();
            sorted.sort_unstable();
            // The least that is not exceeded by more than a hundredth.
            let rank = (sorted.len() * 99).div_ceil(100);
            latencies.push(rank.checked_sub(1).map(|place| sorted[place]));
        }
        let mut observations = Vec::new();
        let mut power = 0.0;
        for executor in 0..self.serving.executors() {
            let (energy, busy) = (self.serving.energy_j(executor), self.serving.busy(executor));
            let (energy_before, busy_before) = self.before[executor];
            let seconds = window.seconds();
            let clock = self.serving.clock(executor);
            let (watts, part) = if seconds > 0.0 {
                let watts = (energy - energy_before) / seconds;
                (Some(watts), (busy - busy_before).seconds() / seconds)
            } else {
                (None, 0.0)
            };
            power += watts.unwrap_or(0.0);
            self.totals.energy_j += energy - energy_before;
            self.totals.mhz_seconds += f64::from(clock) * seconds;
            self.totals.device_seconds += seconds;
            self.before[executor] = (energy, busy);
            let of_model = |model: usize| ModelLatency {
                model: self.serving.models()[model].name.clone(),
                slo: self.serving.models()[model].slo,
                latency: latencies[model],
                weight: 1.0,
            };
            observations.push(GpuObservation {
                now: self.serving.now(),
                clock: Megahertz(clock),
                models: self.serving.models_on(executor).into_iter().map(of_model).collect(),
                busy: part,
                power_w: watts,
                metrics: MetricsStatus::Complete,
            });
        }
        self.window.power_w = power;
        self.observations = observations;
    }
}

impl Plant<GpuClock> for GpuPlant {
    type Error = Error;

    fn targets(&self) -> usize {
        self.observations.len()
    }

    fn advance(&mut self) -> Result<()> {
        let window = self.plan.config().window();
        let until = self.serving.now() + window;
        self.submit_until(until)?;
        self.serving.advance(until);
        self.settle(window);
        Ok(())
    }

    fn observe(&self, target: usize) -> &GpuObservation {
        &self.observations[target]
    }

    fn apply(&mut self, target: usize, decision: &Decision<GpuClock>) -> Result<Megahertz> {
        let clock = self.serving.apply(target, decision);
        self.observations[target].clock = clock;
        Ok(clock)
    }
}
