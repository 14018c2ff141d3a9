//! The clocks with the least power that keep the attainment, fixed for the whole trace.
//!
//! They say what a placement makes possible. A governor that follows the load at run time may do better.

use homeostat_sim_gpu::{Deployment, DeviceType};

use crate::Result;
use crate::simulation::{Outcome, RequestTrace};

/// Steps between the lowest and the highest clock that are tried.
const LEVELS: u32 = 16;

/// Rounds in which single executors are slowed down further.
const ROUNDS: usize = 12;

/// Clocks of the executors, MHz, and what comes of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClockChoice {
    pub(crate) clocks: Vec<u32>,
    pub(crate) outcome: Outcome,
}

/// Searches for the clocks: first one level for all executors, then executor by executor. `reference` is
/// the outcome at the highest clocks.
pub(crate) fn least_power_clocks(
    deployment: &Deployment,
    trace: &RequestTrace,
    goal: f64,
    reference: &Outcome,
) -> Result<ClockChoice> {
    let devices: Vec<&DeviceType> =
        deployment.executors.iter().map(|executor| &executor.device).collect();
    let clocks_of = |levels: &[u32]| -> Vec<u32> {
        devices.iter().zip(levels).map(|(device, level)| clock(device, *level)).collect()
    };
    let play = |levels: &[u32]| -> Result<ClockChoice> {
        let clocks = clocks_of(levels);
        let outcome = Outcome::simulate(deployment.clone(), trace, Some(&clocks))?;
        Ok(ClockChoice { clocks, outcome })
    };
    let highest = vec![LEVELS; devices.len()];
    let mut best = ClockChoice { clocks: clocks_of(&highest), outcome: reference.clone() };
    let mut best_levels = highest;
    // Below some clock power rises again, as work takes longer: each level is judged by its power.
    let (mut low, mut high) = (0, LEVELS);
    while high - low > 1 {
        let middle = (low + high) / 2;
        let levels = vec![middle; devices.len()];
        let played = play(&levels)?;
        if played.outcome.keeps(goal, reference) {
            high = middle;
            if played.outcome.power_w() < best.outcome.power_w() {
                (best, best_levels) = (played, levels);
            }
        } else {
            low = middle;
        }
    }
    // Executors that could be slower, until they were tried in vain.
    let mut candidates: Vec<usize> = (0..devices.len()).collect();
    let mut step = (LEVELS / 4).max(1);
    for _ in 0..ROUNDS {
        candidates.retain(|executor| best_levels[*executor] > 0);
        if candidates.is_empty() {
            break;
        }
        let mut levels = best_levels.clone();
        for executor in &candidates {
            levels[*executor] = levels[*executor].saturating_sub(step);
        }
        let played = play(&levels)?;
        let saves = played.outcome.power_w() < best.outcome.power_w();
        if saves && played.outcome.keeps(goal, reference) {
            (best, best_levels) = (played, levels);
        } else if candidates.len() > 1 {
            // Those with models that keep the least of their SLO are given up first: half of them.
            let strained = strain(deployment, &played.outcome);
            candidates.sort_by(|a, b| strained[*a].total_cmp(&strained[*b]).then(a.cmp(b)));
            candidates.truncate(candidates.len() / 2);
        } else if step > 1 {
            step /= 2;
            candidates = (0..devices.len()).collect();
        } else {
            break;
        }
    }
    Ok(best)
}

/// Raises clocks step by step until the attainment on a trace is that of `reference` or the goal.
pub(crate) fn raise_until_kept(
    deployment: &Deployment,
    trace: &RequestTrace,
    goal: f64,
    reference: &Outcome,
    clocks: Vec<u32>,
) -> Result<ClockChoice> {
    let mut clocks = clocks;
    loop {
        let outcome = Outcome::simulate(deployment.clone(), trace, Some(&clocks))?;
        let executors = deployment.executors.iter().zip(&clocks);
        let all_highest =
            executors.into_iter().all(|(executor, clock)| *clock == executor.device.max_clock());
        if outcome.keeps(goal.min(reference.attainment()), reference) || all_highest {
            return Ok(ClockChoice { clocks, outcome });
        }
        for (executor, clock) in deployment.executors.iter().zip(&mut clocks) {
            let device = &executor.device;
            let step = (device.max_clock() - device.min_clock()).div_ceil(LEVELS).max(1);
            *clock = (*clock + step).min(device.max_clock());
        }
    }
}

/// The clock of a level, on the grid of the device.
fn clock(device: &DeviceType, level: u32) -> u32 {
    let (low, high) = (device.min_clock(), device.max_clock());
    if level >= LEVELS {
        return high;
    }
    let steps =
        u64::from(high - low) * u64::from(level) / u64::from(LEVELS) / u64::from(device.clock_step);
    low + steps as u32 * device.clock_step
}

/// For each executor, the largest part of violations among its models.
fn strain(deployment: &Deployment, outcome: &Outcome) -> Vec<f64> {
    let mut strain = vec![0.0; deployment.executors.len()];
    for instance in &deployment.instances {
        let part = 1.0 - outcome.models[instance.model].attainment();
        for stage in &instance.stages {
            strain[stage.executor] = f64::max(strain[stage.executor], part);
        }
    }
    strain
}
