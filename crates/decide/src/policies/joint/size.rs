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
}

/// The size in cores, and why it changes or stays; nothing is said of what is not known.
pub(super) fn choose(inputs: &SizeInputs<'_>) -> (f64, Option<Reason>) {
    let SizeInputs { obs, use_of_one, fill, replicas } = *inputs;
    let size = obs.allocation.cpu.cores();
    let current = obs.allocation.replicas;
    let is_broken = obs.latency.is_some_and(|latency| latency > obs.slo.threshold());
    let Some(range) = use_of_one else { return (size, None) };
    // The history says what one replica uses; at this size it would be as full as it may be.
    let fitting = range.target / fill;
    let amount = |cores: f64| Amount::Cpu(Millicores::new((cores * 1e3).round() as u64));
    let change =
        || (fitting, Some(Reason::SizedAtLimit { replicas: current, size: amount(fitting) }));
    if current >= replicas.high() && is_broken {
        return if fitting > size { change() } else { (size, None) };
    }
    if current <= replicas.low() && !is_broken && fitting < size {
        if range.upper / fill < size {
            return change();
        }
        let (size_now, would_do) = (amount(size), amount(fitting));
        return (size, Some(Reason::SizeStaysForNow { size: size_now, would_do }));
    }
    (size, Some(Reason::SizeStays { size: amount(size) }))
}
