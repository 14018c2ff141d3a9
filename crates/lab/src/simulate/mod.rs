//! Simulations without learning: any controller on any load, measured.

mod controllers;
mod engine;
mod growth;
mod outcome;
mod run;
mod trace;

pub(crate) use controllers::KEEP_ALIVE;
pub use controllers::{Controllers, LearnedPolicy};
pub use engine::{Scenario, Simulation, WindowRecord};
pub use growth::{Growth, GrowthWindow};
pub use outcome::{Figures, FunctionOutcome, QUANTILES, SimulationOutcome};
pub use run::{FinishedSimulation, SimulationFacts, run_simulation};
pub use trace::{TraceFiles, TraceScenario};
