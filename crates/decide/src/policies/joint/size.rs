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
    pub(super) fill: f64,
    /// Bounds of the number of replicas.
    pub(super) replicas: &'a Bounds<u32>,
    /// Whether the objective is broken.
    pub(super) is_broken: bool,
    /// Whether there is an objective.
    pub(super) has_objective: bool,
}

/// The size in cores, and why it changes or stays; nothing is said of what is not known.
pub(super) fn choose(inputs: &SizeInputs<'_>) -> (f64, Option<Reason>) {
    let SizeInputs { obs, use_of_one, fill, replicas, is_broken, has_objective } = *inputs;
    let size = obs.allocation.cpu.cores();
    let current = obs.allocation.replicas;
    let Some(range) = use_of_one else { return (size, None) };
    // A history of hours does not know of a peak that has just begun.
    let used = obs.mean_cpu_cores().unwrap_or(0.0);
    // At this size a replica would be as full as it may be.
    let fitting = range.target.max(used) / fill;
    let surely_fitting = range.upper.max(used) / fill;
    let amount = |cores: f64| Amount::cpu(Millicores::new((cores * 1e3).round() as u64));
    let change =
        || (fitting, Some(Reason::SizedAtLimit { replicas: current, size: amount(fitting) }));
    if size == 0.0 {
        return (fitting, Some(Reason::FirstSize { size: amount(fitting) }));
    }
    if current >= replicas.high() && fitting > size {
        // An objective that is kept needs no larger replicas, however full they are.
        return if is_broken || !has_objective { change() } else { (size, None) };
    }
    if current <= replicas.low() && !is_broken && fitting < size {
        if surely_fitting < size {
            return change();
        }
        let (size_now, would_do) = (amount(size), amount(fitting));
        return (size, Some(Reason::SizeStaysForNow { size: size_now, would_do }));
    }
    (size, Some(Reason::SizeStays { size: amount(size) }))
}
