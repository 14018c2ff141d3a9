//! Simulated systems: what a simulation plays, and what it reports of it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use homeostat_core::{Fraction, SeedTree, SimDuration, Slo};

use crate::{AllocationBounds, Error, Observation, Plant, PolicyConfig, Result};

/// A plant that is simulated, and can say what truly happened in it. No controller sees these
/// figures: it is shown what monitoring saw.
pub trait SimulatedPlant: Plant<Error = Error> {
    /// A target's name, for people.
    fn name(&self, target: usize) -> &str;

    /// What every target may be given.
    fn bounds(&self) -> &AllocationBounds;

    /// A policy by name, with what an operator would tell it about this target, such as a
    /// service time.
    fn heuristic(&self, name: &str, _target: usize) -> Result<PolicyConfig> {
        PolicyConfig::by_name(name)
    }

    /// The reward of a target's last window, without penalties for actions; zero where nothing is
    /// learned.
    fn reward(&self, _target: usize) -> f64 {
        0.0
    }

    /// A target's last window as it was; none before the first.
    fn window(&self, target: usize) -> Option<&TargetWindow>;

    /// What a target has seen since the start, with its latency at these quantiles.
    fn totals(&mut self, target: usize, quantiles: &[Fraction]) -> TargetTotals;

    /// CPU cores of the whole system.
    fn cores(&self) -> f64;
}

/// A system that can be simulated: makes a fresh plant for every seed.
pub trait PlantSource: fmt::Debug + Send + Sync {
    /// Number of targets.
    fn targets(&self) -> usize;

    /// Length of a window.
    fn window(&self) -> SimDuration;

    /// The load, in a word.
    fn load(&self) -> String;

    /// Mean CPU demand of all targets over the cores, where it is known.
    fn mean_load(&self) -> Option<f64> {
        None
    }

    /// A plant with these of the targets; everything random in it follows from `seeds`.
    fn make(
        &self,
        targets: &[usize],
        seeds: &SeedTree,
        scaled_by: ScaledBy,
    ) -> Result<Box<dyn SimulatedPlant>>;
}

/// What a simulator's value offers beside its environments, where `homeostat sim` can play it.
pub trait PlantSimulator: Sync {
    /// The environment whose settings a simulation has.
    fn env(&self) -> &'static str;

    /// The system that the simulator's settings describe. `configured` is what the simulator made
    /// of them.
    fn plants(&self, configured: &dyn Any) -> Result<Arc<dyn PlantSource>>;
}

/// Who changes the setting of a plant's targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaledBy {
    /// Controllers, by decisions.
    Controllers,
    /// The plant itself, as requests come; decisions are recorded and not carried out.
    Itself,
}

/// One window of one target as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetWindow {
    /// What a controller may see.
    pub observation: Observation,
    /// Requests answered.
    pub completed: u64,
    /// Requests beyond the objective's threshold: late, given up or lost.
    pub missed: u64,
    /// Requests given up while they waited.
    pub timed_out: u64,
    /// Requests lost.
    pub failed: u64,
    /// Containers started.
    pub cold_starts: u64,
    /// CPU time in core-seconds.
    pub cpu_s: f64,
    /// Container-seconds.
    pub container_s: f64,
    /// Memory set aside in GiB-seconds.
    pub memory_gib_s: f64,
}

impl TargetWindow {
    /// A window in which nothing happened.
    pub fn new(observation: Observation) -> Self {
        Self {
            observation,
            completed: 0,
            missed: 0,
            timed_out: 0,
            failed: 0,
            cold_starts: 0,
            cpu_s: 0.0,
            container_s: 0.0,
            memory_gib_s: 0.0,
        }
    }

    /// Whether the target met its latency objective; a window without requests does.
    pub fn is_slo_met(&self) -> bool {
        let observed = &self.observation;
        observed.latency.is_none_or(|latency| latency <= observed.slo.threshold())
    }

    /// Requests that were answered, given up or lost.
    pub fn settled(&self) -> u64 {
        self.completed + self.timed_out + self.failed
    }
}

/// What one target has seen since the start of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetTotals {
    /// Its objective.
    pub slo: Slo,
    /// Requests whose fate is known: answered, given up, lost, or late already.
    pub requests: u64,
    /// Those of them beyond the objective's threshold.
    pub missed: u64,
    /// Latency at the objective's percentile; none without requests.
    pub slo_latency: Option<SimDuration>,
    /// Latency at each of the quantiles that were asked for.
    pub latency: Vec<Option<SimDuration>>,
    /// Core-seconds used.
    pub cpu_s: f64,
    /// Container-seconds.
    pub container_s: f64,
    /// GiB-seconds of memory set aside.
    pub memory_gib_s: f64,
    /// Containers started.
    pub cold_starts: u64,
    /// Containers killed because they ran out of memory.
    pub oom_kills: u64,
}

impl TargetTotals {
    /// Those of a target that has seen nothing.
    pub fn new(slo: Slo) -> Self {
        Self {
            slo,
            requests: 0,
            missed: 0,
            slo_latency: None,
            latency: Vec::new(),
            cpu_s: 0.0,
            container_s: 0.0,
            memory_gib_s: 0.0,
            cold_starts: 0,
            oom_kills: 0,
        }
    }

    /// Adds the counts of a window; its latencies are not in it.
    pub fn add(&mut self, window: &TargetWindow) {
        self.requests += window.settled();
        self.missed += window.missed;
        self.cpu_s += window.cpu_s;
        self.container_s += window.container_s;
        self.memory_gib_s += window.memory_gib_s;
        self.cold_starts += window.cold_starts;
        self.oom_kills += u64::from(window.observation.oom_kills);
    }
}
