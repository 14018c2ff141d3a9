//! Features for one step of one dimension: SLO preservation ratio, CPU and memory utilisation,
//! change of the arrival rate, CPU and memory limits, number of replicas (SIMPPO dissertation,
//! Table 4.1). Training and serving use the same encoder.

use homeostat_core::{Bounds, FeatureField, FeatureSchema, Persist, Result, Snapshot};

use crate::team::with_team;
use crate::{AllocationBounds, Observation, ReplicaSample};

/// Encodes observations. Its state is one number, the previous arrival rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Features {
    bounds: AllocationBounds,
    previous_arrivals_per_s: Option<f64>,
}

impl Features {
    /// Number of features.
    pub const COUNT: usize = 7;

    /// Their names, in order (as in Table 4.1).
    pub const NAMES: [&str; Self::COUNT] =
        ["SP", "RU_cpu", "RU_mem", "AC", "RLT_cpu", "RLT_mem", "NC"];

    /// Range of each; only the change of the arrival rate can be negative.
    pub const RANGES: [(f32, f32); Self::COUNT] =
        [(0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)];

    /// The schema that policy files carry.
    pub fn schema() -> FeatureSchema {
        let meanings = [
            "SLO preservation: the SLO's threshold over measured latency, 1 while it is met",
            "CPU used over CPU given, mean of the replicas",
            "memory used over the limit, mean of the replicas",
            "change of the arrival rate over the larger of both",
            "CPU of a replica between its bounds",
            "memory limit of a replica between its bounds",
            "number of replicas between its bounds",
        ];
        let units = ["", "", "", "", "millicores", "bytes", "replicas"];
        let fields = Self::NAMES.into_iter().zip(meanings).zip(Self::RANGES).zip(units);
        let fields = fields.map(|(((name, meaning), range), unit)| {
            FeatureField::new(name, meaning, range).with_unit(unit)
        });
        FeatureSchema {
            id: "pods/utilization-v1".to_owned(),
            features: fields.collect(),
            history: 1,
        }
    }

    /// The same with the other members of a team behind it.
    pub fn team_schema() -> FeatureSchema {
        let part = (0.0, 1.0);
        let step = (-1.0, 1.0);
        let figures = [
            ("RLT_cpu", part),
            ("RLT_mem", part),
            ("vertical step", step),
            ("horizontal step", step),
            ("SP", part),
            ("RU_cpu", part),
            ("RU_mem", part),
        ];
        with_team(Self::schema(), figures)
    }

    /// A new encoder. Allocations are normalised by the bounds.
    pub fn new(bounds: AllocationBounds) -> Self {
        Self { bounds, previous_arrivals_per_s: None }
    }

    /// Changes the bounds.
    pub fn set_bounds(&mut self, bounds: AllocationBounds) {
        self.bounds = bounds;
    }

    /// The features of an observation, each clamped to its range.
    pub fn observe(&mut self, obs: &Observation) -> [f32; Self::COUNT] {
        let allocation = &obs.allocation;
        let cores = allocation.cpu.cores();
        let bytes = allocation.memory.bytes() as f64;
        // NaN means that the rate is unknown: the last known rate stays.
        let arrivals = Some(obs.arrivals_per_s).filter(|rate| rate.is_finite() && *rate >= 0.0);
        let features = [
            // SP in [0, 1]: SLO threshold over measured latency; 1 without violation or request.
            preservation(obs),
            // RU_cpu in [0, 1]: mean use over limit. CPU is a weight, so use may exceed it.
            mean_use(obs, cores, |replica| replica.cpu_cores),
            // RU_mem in [0, 1]: mean use over limit.
            mean_use(obs, bytes, |replica| replica.memory.map(|memory| memory.bytes() as f64)),
            // AC in [-1, 1]: change of the arrival rate over the larger of both; 0 at first.
            arrival_change(arrivals, self.previous_arrivals_per_s),
            // RLT_cpu in [0, 1]: CPU limit, relative to its bounds.
            place(&self.bounds.cpu, allocation.cpu, |cpu| cpu.cores()),
            // RLT_mem in [0, 1]: memory limit, relative to its bounds.
            place(&self.bounds.memory, allocation.memory, |memory| memory.bytes() as f64),
            // NC in [0, 1]: number of replicas, relative to its bounds.
            place(&self.bounds.replicas, allocation.replicas, f64::from),
        ];
        self.previous_arrivals_per_s = arrivals.or(self.previous_arrivals_per_s);
        features.map(|feature| feature as f32)
    }
}

/// SP: SLO threshold over measured latency; 1 without violation or request.
pub(crate) fn preservation(obs: &Observation) -> f64 {
    obs.latency.map_or(1.0, |latency| obs.slo.preservation(latency).ratio())
}

/// AC: change of the arrival rate over the larger of both; 0 at first.
pub(crate) fn arrival_change(now: Option<f64>, before: Option<f64>) -> f64 {
    now.zip(before).map_or(0.0, |(now, before)| {
        let most = now.max(before);
        if most > 0.0 { (now - before) / most } else { 0.0 }
    })
}

/// Mean over the replicas with a measurement, as a fraction of the limit, at most 1.
fn mean_use(obs: &Observation, limit: f64, usage: impl Fn(&ReplicaSample) -> Option<f64>) -> f64 {
    let figures = obs.replicas.iter().filter_map(usage);
    let (mut sum, mut count) = (0.0, 0.0);
    for figure in figures.filter(|figure| figure.is_finite() && *figure >= 0.0) {
        sum += figure;
        count += 1.0;
    }
    if count > 0.0 && limit > 0.0 { (sum / count / limit).min(1.0) } else { 0.0 }
}

fn place<T: PartialOrd + Copy + std::fmt::Display>(
    bounds: &Bounds<T>,
    value: T,
    number: impl Fn(T) -> f64,
) -> f64 {
    let (low, high) = (number(bounds.low()), number(bounds.high()));
    if high > low { (number(bounds.clamp(value)) - low) / (high - low) } else { 0.0 }
}

impl Persist for Features {
    fn save(&self, name: &str, out: &mut Snapshot) {
        let previous: Vec<_> = self.previous_arrivals_per_s.into_iter().collect();
        out.put_f64(name, previous);
    }

    fn load(&mut self, name: &str, from: &Snapshot) -> Result<()> {
        self.previous_arrivals_per_s = from.any_f64s(name)?.first().copied();
        Ok(())
    }
}
