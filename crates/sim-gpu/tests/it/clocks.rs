//! Clocks that tests decide.

use homeostat_core::Bounds;
use homeostat_decide::{
    ClockBounds, ClockProposal, GpuObservation, Guards, GuardsConfig, Megahertz, PreparedProposal,
    decide,
};
use homeostat_sim_gpu::Serving;

/// Sets a clock, by a decision without limits.
pub(crate) fn set_clock(serving: &mut Serving, executor: usize, mhz: u32) {
    let range = Bounds::try_new(Megahertz(0), Megahertz(u32::MAX)).unwrap();
    let mut guards =
        Guards::try_new(GuardsConfig::bounds_only(ClockBounds { range, step: 0 })).unwrap();
    let seen = GpuObservation::new(serving.now(), Megahertz(serving.clock(executor)));
    let proposal = ClockProposal { mhz: mhz.into(), reasons: Vec::new() };
    let decision = decide(&mut PreparedProposal::new(proposal), &mut guards, &seen);
    serving.apply(executor, &decision);
}
