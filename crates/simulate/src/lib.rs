//! Simulations without learning: any controller on any simulated system, measured; and the files
//! of request traces that loads come from.
#![forbid(unsafe_code)]

mod controllers;
mod engine;
mod growth;
mod outcome;
mod plant_dynamics;
mod run;
mod single_target;
mod trace;
mod trace_file;
mod trace_report;

pub use controllers::Controllers;
pub use engine::{Scenario, Simulation, WindowRecord};
pub use growth::{Growth, GrowthWindow};
pub use outcome::{Figures, FunctionOutcome, QUANTILES, SimulationOutcome};
pub use plant_dynamics::{PlantCard, PlantDynamics};
pub use run::{FinishedSimulation, SimulationFacts, run_simulation};
pub use single_target::{SingleTarget, SingleTargetSystem};
pub use trace::{SLO_OVER_MEAN, TraceFiles, TraceScenario, TracedPlatform};
pub use trace_file::read_trace;
pub use trace_report::{
    GeneratedTrace, TableSummary, fit_trace, inspect_trace, model_to_toml, read_model, write_trace,
};
