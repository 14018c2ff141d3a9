//! How does a control domain of your own get the guards and typed reasons of `decide`?
//!
//! `cpu_frequency.rs` describes the domain. The policy keeps a CPU 60 % busy; guards keep its
//! frequency inside bounds, and do not lower it soon after a change or while the SLO is violated.

mod cpu_frequency;

use cpu_frequency::{CpuFrequency, FrequencyBounds, Megahertz, Proposal, Reason, Sample};
use homeostat_core::{Bounds, Persist, SimDuration, SimTime, Snapshot};
use homeostat_decide::{
    CoolDownConfig, GuardReason, Guards, GuardsConfig, Policy, SloStatus, decide,
};

/// Proportional control, as the horizontal pod autoscaler does it for replicas.
struct Proportional;

impl Policy<CpuFrequency> for Proportional {
    fn name(&self) -> &str {
        "proportional"
    }

    fn propose(&mut self, obs: &Sample) -> Proposal {
        let mhz = obs.frequency.0 as f64 * obs.utilisation / 0.6;
        Proposal(mhz, vec![Reason::Utilisation(obs.utilisation)])
    }
}

impl Persist for Proportional {
    fn save(&self, _name: &str, _out: &mut Snapshot) {}

    fn load(&mut self, _name: &str, _from: &Snapshot) -> homeostat_core::Result<()> {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bounds = FrequencyBounds(Bounds::try_new(800, 3200)?);
    let mut guards = Guards::try_new(GuardsConfig::<CpuFrequency> {
        hold_while_violated: true,
        cool_down: CoolDownConfig { up: SimDuration::ZERO, down: SimDuration::from_secs(30) },
        ..GuardsConfig::bounds_only(bounds)
    })?;
    let mut frequency = Megahertz(1600);
    let mut now = SimTime::ZERO;
    let mut clamped = 0;
    let windows = [
        (0.9, SloStatus::Met),
        (0.99, SloStatus::Violated),
        (0.3, SloStatus::Violated),
        (0.3, SloStatus::Violated),
        (0.3, SloStatus::Met),
        (f64::NAN, SloStatus::Unknown),
    ];
    for (utilisation, slo) in windows {
        now += SimDuration::from_secs(20);
        let obs = Sample { now, frequency, utilisation, slo };
        let decision = decide(&mut Proportional, &mut guards, &obs);
        println!("{decision}");
        let is_clamp = |reason: &&Reason| matches!(reason, Reason::Guard(GuardReason::AtMost(_)));
        clamped += decision.reasons().iter().filter(is_clamp).count();
        frequency = *decision.applied();
    }
    println!("{clamped} clamped to the highest frequency, {} refused", guards.refusals());
    Ok(())
}
