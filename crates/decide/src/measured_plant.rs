//! Simulated systems of any control domain, measured by figures with names.

use std::fmt;
use std::sync::Arc;

use homeostat_core::{SeedTree, SimDuration};

use crate::{ContainerScaling, Domain, Error, GpuClock, Plant, PlantSource, Result};

/// An exact figure of a simulation, such as `slo_violation_ratio`. Its unit is the end of its name.
pub type Figure = (&'static str, f64);

/// A simulated plant of any domain. Its figures are exact; controllers read only the telemetry of
/// [`Plant::observe`].
pub trait MeasuredPlant<D: Domain>: Plant<D, Error = Error> {
    /// A target's name in reports.
    fn name(&self, target: usize) -> &str;

    /// The bounds of a target.
    fn bounds(&self, target: usize) -> D::Bounds;

    /// The figures of a target in the last window, the same names in every window.
    fn window(&self, target: usize) -> Vec<Figure>;

    /// The figures of a target since the start, the same names for every target.
    fn totals(&mut self, target: usize) -> Vec<Figure>;

    /// The figures of the whole system since the start.
    fn system_totals(&mut self) -> Vec<Figure>;
}

/// A system that can be simulated: makes a new plant for every seed.
pub trait MeasuredSource<D: Domain>: fmt::Debug + Send + Sync {
    /// Number of targets.
    fn targets(&self) -> usize;

    /// Length of a window.
    fn window(&self) -> SimDuration;

    /// A short description of the load.
    fn load(&self) -> String;

    /// The same system with the anomalies of a campaign, whose text this is, and no others. Refuses it
    /// where nothing can be injected.
    fn with_campaign(&self, _text: &str) -> Result<Arc<dyn MeasuredSource<D>>> {
        Err(Error::plant("no anomalies can be injected into this system"))
    }

    /// A plant. All its random streams come from `seeds`.
    fn make(&self, seeds: &SeedTree) -> Result<Box<dyn MeasuredPlant<D>>>;
}

/// A system that can be simulated, by the domain of its settings. Programs choose policies by the
/// domain, so that they need not know the simulator.
#[derive(Debug, Clone)]
pub enum SimulatedSystem {
    /// Pods, whose replicas and sizes autoscalers choose.
    Pods(Arc<dyn PlantSource>),
    /// GPUs, whose clocks governors choose.
    GpuClocks(Arc<dyn MeasuredSource<GpuClock>>),
    /// Containers, whose replicas and limits of five resources policies choose.
    Containers(Arc<dyn MeasuredSource<ContainerScaling>>),
}

impl SimulatedSystem {
    /// A system of pods. Refuses any other.
    pub fn pods(self) -> Result<Arc<dyn PlantSource>> {
        match self {
            Self::Pods(system) => Ok(system),
            Self::GpuClocks(_) => Err(Error::plant(
                "it scales no pods: `homeostat sim` runs governors of clocks on it",
            )),
            Self::Containers(_) => Err(Error::plant(
                "it scales no pods: `homeostat sim` runs policies for five limits on it",
            )),
        }
    }
}
