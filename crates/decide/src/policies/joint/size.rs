//! How much CPU a replica should have.
//!
//! While the number of replicas can follow the load, the size stays: a change of it costs a
//! restart on most clusters. It moves where the number has come to its end.

use homeostat_core::{Bounds, Millicores};

use super::super::vpa::Range;
use crate::{Amount, Observation, Reason};

/// What is known when the size is chosen.
pub(super) struct SizeInputs<'a> {
    pub(super) obs: &'a Observation,
    /// CPU that one replica used, by its history; none without one.
    pub(super) use_of_one: Option<&'a Range>,
    /// How full replicas may be.
    pub(super) target_utilization: f64,
    /// Bounds of the number of replicas.
    pub(super) replicas: &'a Bounds<u32>,
    /// Whether the SLO is violated.
    pub(super) is_violated: bool,
    /// Whether there is an SLO.
    pub(super) has_slo: bool,
}

/// The size in cores, and why it changes or stays; nothing is said of what is not known.
pub(super) fn choose(inputs: &SizeInputs<'_>) -> (f64, Option<Reason>) {
    let SizeInputs { obs, use_of_one, target_utilization, replicas, is_violated, has_slo } =
        *inputs;
    let size = obs.allocation.cpu.cores();
    let current = obs.allocation.replicas;
    let Some(range) = use_of_one else { return (size, None) };
    // A history of hours does not know of a peak that has just begun.
    let used = obs.mean_cpu_cores().unwrap_or(0.0);
    // At this size a replica would be as full as it may be.
    let fitting = range.target.max(used) / target_utilization;
    let surely_fitting = range.upper.max(used) / target_utilization;
    let amount = |cores: f64| Amount::cpu(Millicores::new((cores * 1e3).round() as u64));
    let change =
        || (fitting, Some(Reason::SizedAtLimit { replicas: current, size: amount(fitting) }));
    if size == 0.0 {
        return (fitting, Some(Reason::FirstSize { size: amount(fitting) }));
    }
    if current >= replicas.high() && fitting > size {
        // An SLO that is met needs no larger replicas, however full they are.
        return if is_violated || !has_slo { change() } else { (size, None) };
    }
    if current <= replicas.low() && !is_violated && fitting < size {
        if surely_fitting < size {
            return change();
        }
        let (size_now, would_do) = (amount(size), amount(fitting));
        return (size, Some(Reason::SizeStaysForNow { size: size_now, would_do }));
    }
    (size, Some(Reason::SizeStays { size: amount(size) }))
}
