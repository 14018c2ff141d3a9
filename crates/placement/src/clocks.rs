//! The clocks with the least power that keep the attainment, fixed for the whole trace.
//!
//! They say what a placement makes possible. A governor that follows the load at run time may do better.

use homeostat_sim_gpu::{Deployment, DeviceType};

use crate::Result;
use crate::simulation::{Outcome, RequestTrace};

/// Steps between the lowest and the highest clock that are tried.
const LEVELS: u32 = 16;

/// Rounds in which single executors are slowed down further.
const ROUNDS: usize = 40;

/// Clocks of the executors, MHz, and the outcome with them.
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
    // Executors that may still be slower. Where a step strains models, their executors keep their clock until
    // the step is smaller.
    let mut open: Vec<bool> = vec![true; devices.len()];
    let mut step = LEVELS / 4;
    for _ in 0..ROUNDS {
        let mut levels = best_levels.clone();
        for (level, _) in levels.iter_mut().zip(&open).filter(|(_, is_open)| **is_open) {
            *level = level.saturating_sub(step);
        }
        let is_over = levels == best_levels;
        if !is_over {
            let played = play(&levels)?;
            let saves = played.outcome.power_w() < best.outcome.power_w();
            if saves && played.outcome.keeps(goal, reference) {
                (best, best_levels) = (played, levels);
                continue;
            }
            let mut strained = played.outcome.strained(goal, reference);
            if strained.is_empty() {
                strained.extend(most_violated(&played.outcome, reference));
            }
            let (before, own) = (open.clone(), hosts(deployment, &strained));
            for (is_open, is_host) in open.iter_mut().zip(own) {
                *is_open &= saves && !is_host;
            }
            if open != before && open.contains(&true) {
                continue;
            }
        }
        if step == 1 {
            break;
        }
        step /= 2;
        open.fill(true);
    }
    Ok(best)
}

/// The model with the most violations beyond those of the reference.
fn most_violated(outcome: &Outcome, reference: &Outcome) -> Option<usize> {
    let more = |model: &usize| {
        let before = reference.models[*model].violations();
        outcome.models[*model].violations().saturating_sub(before)
    };
    (0..outcome.models.len()).max_by_key(more)
}

/// Whether each executor has a part of one of these models.
fn hosts(deployment: &Deployment, models: &[usize]) -> Vec<bool> {
    let mut hosts = vec![false; deployment.executors.len()];
    for instance in deployment.instances.iter().filter(|one| models.contains(&one.model)) {
        for stage in &instance.stages {
            hosts[stage.executor] = true;
        }
    }
    hosts
}

/// Raises clocks step by step until the attainment on a trace is that of `reference` or the goal: those
/// of strained models, or all where none is.
pub(crate) fn raise_until_kept(
    deployment: &Deployment,
    trace: &RequestTrace,
    goal: f64,
    reference: &Outcome,
    mut clocks: Vec<u32>,
) -> Result<ClockChoice> {
    let goal = goal.min(reference.attainment());
    loop {
        let outcome = Outcome::simulate(deployment.clone(), trace, Some(&clocks))?;
        if outcome.keeps(goal, reference) {
            return Ok(ClockChoice { clocks, outcome });
        }
        let before = clocks.clone();
        let own = hosts(deployment, &outcome.strained(goal, reference));
        raise(deployment, &mut clocks, |executor| own[executor]);
        if clocks == before {
            raise(deployment, &mut clocks, |_| true);
        }
        if clocks == before {
            return Ok(ClockChoice { clocks, outcome });
        }
    }
}

fn raise(deployment: &Deployment, clocks: &mut [u32], is_chosen: impl Fn(usize) -> bool) {
    for (executor, clock) in clocks.iter_mut().enumerate().filter(|(one, _)| is_chosen(*one)) {
        let device = &deployment.executors[executor].device;
        let step = (device.max_clock() - device.min_clock()).div_ceil(LEVELS).max(1);
        *clock = (*clock + step).min(device.max_clock());
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
