//! An M/M/c queue whose servers are added and removed while its load rises and falls. One value,
//! [`SIMULATOR`], offers it as an environment to learn in and as a plant for autoscalers.

use homeostat_core::{
    Bounds, Bytes, Fraction, Millicores, Persist, SimDuration, SimTime, Slo, Snapshot, Stream,
};
use homeostat_decide::{
    Allocation, AllocationBounds, Decision, Error, Observation, Plant, ReplicaSample, Result,
    RewardPreset, SimulatedPlant, TargetTotals, TargetWindow,
};
use homeostat_des::Histogram;
use homeostat_simulate::{PlantCard, SingleTarget, SingleTargetSystem};
use serde::Deserialize;

pub(crate) static SIMULATOR: SingleTarget<QueueConfig> = SingleTarget::new();

/// The settings; `queue.toml` says what they mean.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueConfig {
    arrivals_per_s: f64,
    service_s: f64,
    slo_s: f64,
    window_s: f64,
    max_servers: u32,
}

impl SingleTargetSystem for QueueConfig {
    type Plant = Queue;

    const CARD: PlantCard = PlantCard {
        id: "queue/mmc-v1",
        summary: "A queue with c servers, of which one is added or removed in each window.",
        steps: 120,
        reward: RewardPreset::Cost,
    };
    const DEFAULT_TOML: &'static str = include_str!("queue.toml");

    fn window(&self) -> SimDuration {
        duration(self.window_s)
    }

    fn plant(&self, rng: Stream) -> Queue {
        Queue::new(self, rng)
    }
}

/// The queue. Service times are exponential: any request in service may be the next to leave.
pub(crate) struct Queue {
    config: QueueConfig,
    bounds: AllocationBounds,
    rng: Stream,
    now: f64,
    /// Arrival times of the requests inside, oldest first; as many as there are servers are served.
    inside: Vec<f64>,
    window: TargetWindow,
    totals: TargetTotals,
    latency: Histogram,
}

impl Queue {
    fn new(config: &QueueConfig, rng: Stream) -> Self {
        let replicas = Bounds::try_new(1, config.max_servers.max(1)).expect("in order");
        let cpu = Bounds::try_new(Millicores::new(1000), Millicores::new(1000)).expect("equal");
        let memory = Bounds::try_new(Bytes::from_mib(128), Bytes::from_mib(128)).expect("equal");
        let allocation =
            Allocation { replicas: replicas.high(), cpu: cpu.low(), memory: memory.low() };
        let slo = Slo::try_new(Fraction::from_percent(99), duration(config.slo_s.max(1e-3)));
        let slo = slo.expect("it is above zero");
        let seen = Observation::new(SimTime::ZERO, allocation, slo);
        Self {
            config: config.clone(),
            bounds: AllocationBounds { replicas, cpu, memory },
            rng,
            now: 0.0,
            inside: Vec::new(),
            window: TargetWindow::new(Observation { window: config.window(), ..seen }),
            totals: TargetTotals::new(slo),
            latency: Histogram::default(),
        }
    }
}

impl Plant for Queue {
    type Error = Error;

    fn targets(&self) -> usize {
        1
    }

    fn advance(&mut self) -> Result<()> {
        let QueueConfig { arrivals_per_s, service_s, slo_s, window_s, .. } = self.config;
        let mut window = TargetWindow::new(self.window.observation.clone());
        let obs = &mut window.observation;
        let (end, servers) = (self.now + window_s, obs.allocation.replicas as usize);
        let arrivals =
            arrivals_per_s * (1.0 + 0.7 * (std::f64::consts::TAU * self.now / 600.0).sin());
        let (mut arrived, mut seen) = (0, Histogram::default());
        loop {
            let busy = self.inside.len().min(servers);
            let events = arrivals + busy as f64 / service_s;
            let step = -(1.0 - self.rng.uniform()).ln() / events;
            window.cpu_s += busy as f64 * step.min(end - self.now);
            self.now += step;
            if self.now >= end {
                break;
            }
            if self.rng.uniform() * events < arrivals {
                self.inside.push(self.now);
                arrived += 1;
            } else {
                let latency = self.now - self.inside.remove(self.rng.below(busy));
                window.completed += 1;
                window.slo_violations += u64::from(latency > slo_s);
                seen.record(duration(latency));
            }
        }
        self.now = end;
        window.container_s = servers as f64 * window_s;
        let cpu_cores = Some(window.cpu_s / window.container_s);
        let replica = ReplicaSample { cpu_cores, ..ReplicaSample::ready(SimTime::ZERO) };
        obs.now = SimTime::from_nanos((end * 1e9) as u64);
        obs.latency = seen.quantile(obs.slo.percentile());
        obs.arrivals_per_s = f64::from(arrived) / window_s;
        obs.waiting = self.inside.len().saturating_sub(servers) as u64;
        obs.replicas = vec![replica; servers];
        self.totals.add(&window);
        self.latency.merge(&seen);
        self.window = window;
        Ok(())
    }

    fn observe(&self, _target: usize) -> &Observation {
        &self.window.observation
    }

    fn apply(&mut self, _target: usize, decision: &Decision) -> Result<Allocation> {
        self.window.observation.allocation = *decision.applied();
        Ok(*decision.applied())
    }
}

impl SimulatedPlant for Queue {
    fn name(&self, _target: usize) -> &str {
        "queue"
    }

    fn bounds(&self) -> &AllocationBounds {
        &self.bounds
    }

    fn window(&self, _target: usize) -> Option<&TargetWindow> {
        Some(&self.window)
    }

    fn totals(&mut self, _target: usize, quantiles: &[Fraction]) -> TargetTotals {
        let at = |part: &Fraction| self.latency.quantile(*part);
        let slo_latency = at(&self.totals.slo.percentile());
        let latency = quantiles.iter().map(at).collect();
        TargetTotals { slo_latency, latency, ..self.totals.clone() }
    }

    fn cores(&self) -> f64 {
        f64::from(self.bounds.replicas.high())
    }
}

impl Persist for Queue {
    fn save(&self, name: &str, out: &mut Snapshot) {
        self.rng.save(&format!("{name}/rng"), out);
        let servers = f64::from(self.window.observation.allocation.replicas);
        out.put_f64(&format!("{name}/queue"), [&[self.now, servers], &self.inside[..]].concat());
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> homeostat_core::Result<()> {
        self.rng.load(&format!("{name}/rng"), from)?;
        if let [now, servers, inside @ ..] = from.any_f64s(&format!("{name}/queue"))? {
            (self.now, self.inside) = (*now, inside.to_vec());
            self.window.observation.allocation.replicas = *servers as u32;
        }
        Ok(())
    }
}

fn duration(seconds: f64) -> SimDuration {
    SimDuration::from_nanos((seconds * 1e9) as u64)
}
