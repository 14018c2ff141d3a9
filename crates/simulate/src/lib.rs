//! Simulations without learning: any controller on any simulated system, measured; and the files
//! of request traces that loads come from. Pods have a simulation with figures of their own
//! ([`Simulation`]); systems of every other domain share [`MeasuredSimulation`].
#![forbid(unsafe_code)]

mod container_policies;
mod controllers;
mod domain_policies;
mod engine;
mod managed;
mod measured;
mod outcome;
mod plant_dynamics;
mod recorder;
mod request;
mod run;
mod single_target;
mod trace;
mod trace_file;
mod trace_report;
mod windows_file;

pub use controllers::Controllers;
pub use domain_policies::{DomainPolicies, NamedPolicies};
pub use engine::{Scenario, Simulation, WindowRecord};
pub use managed::{LearnerConfig, ManagedConfig, ManagedPolicy, StageEntry};
pub use measured::{FinishedMeasured, MeasuredOutcome, MeasuredSimulation};
pub use outcome::{Figures, FunctionOutcome, QUANTILES, SimulationOutcome};
pub use plant_dynamics::{PlantCard, PlantDynamics};
pub use request::{PreparedSimulation, SimulationRequest, whole_windows};
pub use run::{FinishedSimulation, SimulationFacts, run_simulation};
pub use single_target::{SingleTarget, SingleTargetSystem};
pub use trace::{SLO_OVER_MEAN, TraceFiles, TraceScenario, TracedPlatform};
pub use trace_file::read_trace;
pub use trace_report::{
    FitRow, FittedModel, GeneratedTrace, TableSummary, fit_trace, inspect_trace, model_to_toml,
    read_model, write_trace,
};
pub use windows_file::{find_windows_file, windows_file_name};
