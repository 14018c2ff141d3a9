//! Simulated systems, and the figures that a simulation reports.

use std::any::Any;
use std::fmt;

use homeostat_core::{Fraction, SeedTree, SimDuration, Slo};

use crate::{AllocationBounds, Error, Observation, Plant, PolicyConfig, Result, SimulatedSystem};

/// A simulated plant. Its figures are exact; controllers read only the telemetry of
/// [`Plant::observe`].
pub trait SimulatedPlant: Plant<Error = Error> {
    /// A target's name in reports.
    fn name(&self, target: usize) -> &str;

    /// The bounds of every target.
    fn bounds(&self) -> &AllocationBounds;

    /// A policy by name, configured for this target, for example with its service time.
    fn heuristic(&self, name: &str, _target: usize) -> Result<PolicyConfig> {
        PolicyConfig::by_name(name)
    }

    /// The reward of a target's last window, without action penalties; zero for a plant without
    /// rewards.
    fn reward(&self, _target: usize) -> f64 {
        0.0
    }

    /// The exact figures of a target's last window; none before the first.
    fn window(&self, target: usize) -> Option<&TargetWindow>;

    /// The exact figures of a target since the start, with its latency at these quantiles.
    fn totals(&mut self, target: usize, quantiles: &[Fraction]) -> TargetTotals;

    /// CPU cores of the whole system.
    fn cores(&self) -> f64;
}

/// A system that can be simulated: makes a new plant for every seed. `examples/rust/src/queue.rs`
/// is a complete simulator.
pub trait PlantSource: fmt::Debug + Send + Sync {
    /// Number of targets.
    fn targets(&self) -> usize;

    /// Length of a window.
    fn window(&self) -> SimDuration;

    /// A short description of the load.
    fn load(&self) -> String;

    /// Mean CPU demand of all targets over the cores, where it is known.
    fn mean_load(&self) -> Option<f64> {
        None
    }

    /// A plant with these targets. All its random streams come from `seeds`.
    fn make(
        &self,
        targets: &[usize],
        seeds: &SeedTree,
        scaled_by: ScaledBy,
    ) -> Result<Box<dyn SimulatedPlant>>;
}

/// A simulator that also offers plants, so that `homeostat sim` can run policies on it.
pub trait PlantSimulator: Sync {
    /// The environment whose settings apply to a simulation.
    fn env(&self) -> &'static str;

    /// The system that the settings describe. `configured` is the simulator's
    /// `ConfiguredSimulator`.
    fn system(&self, configured: &dyn Any) -> Result<SimulatedSystem>;
}

/// What changes the settings of a plant's targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScaledBy {
    /// Decisions of controllers.
    Controllers,
    /// The plant itself, on demand; decisions are recorded and not applied.
    Itself,
}

/// The exact figures of one target in one window.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetWindow {
    /// The telemetry that controllers read.
    pub observation: Observation,
    /// Requests answered.
    pub completed: u64,
    /// Requests beyond the SLO's threshold: late, given up or lost.
    pub slo_violations: u64,
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
    /// A window without requests.
    pub fn new(observation: Observation) -> Self {
        Self {
            observation,
            completed: 0,
            slo_violations: 0,
            timed_out: 0,
            failed: 0,
            cold_starts: 0,
            cpu_s: 0.0,
            container_s: 0.0,
            memory_gib_s: 0.0,
        }
    }

    /// Whether the target met its latency SLO; a window without requests does.
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
    /// Its SLO.
    pub slo: Slo,
    /// Requests whose fate is known: answered, given up, lost, or late already.
    pub requests: u64,
    /// Those of them beyond the SLO's threshold.
    pub slo_violations: u64,
    /// Latency at the SLO's percentile; none without requests.
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
            slo_violations: 0,
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
        self.slo_violations += window.slo_violations;
        self.cpu_s += window.cpu_s;
        self.container_s += window.container_s;
        self.memory_gib_s += window.memory_gib_s;
        self.cold_starts += window.cold_starts;
        self.oom_kills += u64::from(window.observation.oom_kills);
    }
}
