//! Playing what was learnt, on requests that training never met.

use std::sync::Arc;

use homeostat_lab::Result;
use homeostat_sim_faas::FaasPlan;
use homeostat_simulate::{Controllers, Scenario, Simulation, SimulationOutcome};

/// The first evaluation seed that belongs to a seed of training. Training never sees them.
pub(super) fn first_evaluation_seed(seed: u64) -> u64 {
    1_000_000_u64.wrapping_add(seed.wrapping_mul(1000))
}

/// Plays controllers on the evaluation seeds of one seed.
pub(super) fn play_seed(
    plan: &FaasPlan,
    scenario: &Scenario,
    controllers: &Controllers,
    seed: u64,
    evaluations: u64,
) -> Result<Vec<SimulationOutcome>> {
    let simulation = Simulation {
        system: Arc::new(plan.clone()),
        scenario: *scenario,
        controllers: controllers.clone(),
        duration: plan.window() * u64::from(plan.config().steps),
    };
    let first = first_evaluation_seed(seed);
    let trials = 0..evaluations;
    trials.map(|trial| simulation.run(first.wrapping_add(trial), &mut |_| Ok(()))).collect()
}

/// The mean; zero of nothing.
pub(in crate::reproduce) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
