//! A deployment under load, with and without a governor on every device.

use homeostat_core::SimDuration;
use homeostat_decide::{GpuClock, Guards, GuardsConfig, MeasuredPlant, Plant, Policy, decide};
use homeostat_muserve::govern::{MiadConfig, StepDown};
use homeostat_sim_gpu::{Deployment, GpuPlant, PlantWindows, Request};

/// What sets the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reproduce::muserve) enum Governor {
    /// Nothing: all stay at the highest.
    Highest,
    /// MIAD on every device, each second (Alg. 6.3).
    Miad,
}

/// The outcome.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::reproduce::muserve) struct Played {
    /// Part of the requests within their SLO.
    pub(in crate::reproduce::muserve) attainment: f64,
    /// Mean power of all devices together, W.
    pub(in crate::reproduce::muserve) power_w: f64,
    /// Mean power of a device while it is busy, W.
    pub(in crate::reproduce::muserve) busy_power_w: f64,
    /// Part of the time in which a device is busy.
    pub(in crate::reproduce::muserve) busy: f64,
    /// p99 of latency over SLO, of the model with the largest.
    pub(in crate::reproduce::muserve) p99_over_slo: f64,
    /// Mean clock of the devices in each second, MHz.
    pub(in crate::reproduce::muserve) clocks: Vec<f64>,
}

/// What a governor sees: each second, the p99 of the last ten.
const WINDOWS: PlantWindows =
    PlantWindows { window: SimDuration::from_secs(1), latency: SimDuration::from_secs(10) };

/// MIAD as in these experiments, chosen on development seeds so that 99 % of the requests stay within
/// their SLO. Deviation: a step of 15 MHz, because latency answers to a clock after seconds, and a margin of
/// 0.3 instead of 0.05, because ten seconds have few answers for a p99.
const MIAD: MiadConfig =
    MiadConfig { factor: 2.0, step: 15.0, margin: 0.3, step_down: StepDown::Every };

/// Plays so many seconds. Every clock is decided by `decide()`.
pub(in crate::reproduce::muserve) fn play(
    deployment: Deployment,
    requests: Vec<Request>,
    governor: Governor,
    seconds: u64,
) -> homeostat_decide::Result<Played> {
    let devices: Vec<(f64, f64)> = deployment
        .executors
        .iter()
        .map(|executor| (f64::from(executor.devices), executor.device.idle_w))
        .collect();
    let mut plant = GpuPlant::new(deployment, Box::new(requests.into_iter()), WINDOWS)?;
    let mut governors: Vec<(Box<dyn Policy<GpuClock>>, Guards<GpuClock>)> = Vec::new();
    if governor == Governor::Miad {
        for target in 0..plant.targets() {
            let miad = MIAD.build().map_err(homeostat_decide::Error::plant)?;
            let guards = Guards::try_new(GuardsConfig::bounds_only(plant.bounds(target)))?;
            governors.push((Box::new(miad), guards));
        }
    }
    let mut played = Played::default();
    let all: f64 = devices.iter().map(|(count, _)| count).sum();
    // Seconds of busy devices, and their energy in these; a window is a second.
    let (mut busy_s, mut busy_j) = (0.0_f64, 0.0);
    for _ in 0..seconds {
        plant.advance()?;
        let mut mhz = 0.0;
        for (target, (count, idle_w)) in devices.iter().enumerate() {
            let seen = plant.observe(target);
            mhz += count * f64::from(seen.clock.0);
            busy_s += count * seen.busy;
            busy_j += seen.power_w.unwrap_or(0.0) - count * idle_w * (1.0 - seen.busy);
        }
        played.clocks.push(mhz / all);
        for (target, (policy, guards)) in governors.iter_mut().enumerate() {
            let decision = decide(policy.as_mut(), guards, plant.observe(target));
            plant.apply(target, &decision)?;
        }
    }
    let totals = plant.all_totals();
    played.attainment = 1.0 - totals.slo_violations as f64 / totals.requests.max(1) as f64;
    played.power_w = totals.power_w;
    played.busy_power_w = busy_j / busy_s.max(f64::MIN_POSITIVE);
    played.busy = busy_s / all / seconds as f64;
    played.p99_over_slo = totals.p99_over_slo;
    Ok(played)
}
