//! Playing what was learnt, on requests that training never met.

use homeostat_sim_faas::FaasPlan;

use crate::Result;
use crate::simulate::{Controllers, Scenario, Simulation, SimulationOutcome};

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
        plan: plan.clone(),
        scenario: scenario.clone(),
        controllers: controllers.clone(),
        duration: plan.window() * u64::from(plan.config().steps),
    };
    let first = first_evaluation_seed(seed);
    let trials = 0..evaluations;
    trials.map(|trial| simulation.run(first.wrapping_add(trial), &mut |_| Ok(()))).collect()
}
