//! Whether a recommendation is worth a restart.

use homeostat_core::{Bytes, Millicores};

use super::estimator::Range;
use super::policy::VpaConfig;
use crate::{Amount, Observation, Reason};

/// Whether the requests should become their targets now, and why or why not.
///
/// A request outside its range is changed at once. One inside only after the lifetime, and
/// if the targets are far enough away; or after an out-of-memory kill.
// Deviation: Kubernetes asks whether a killed replica had run for less than ten minutes; an
// observation does not say, so every kill counts. It also replaces replicas one by one, and
// young ones may have other requests than old ones; an allocation is of all replicas at once.
pub(super) fn update(
    config: &VpaConfig,
    obs: &Observation,
    kills: u32,
    cpu: Option<&Range>,
    memory: Option<&Range>,
) -> (bool, Vec<Reason>) {
    let cores = obs.allocation.cpu.cores();
    let bytes = obs.allocation.memory.bytes() as f64;
    let mut outside = Vec::new();
    if cpu.is_some_and(|range| !range.contains(cores)) {
        outside.push(Reason::OutsideRange { request: Amount::cpu(obs.allocation.cpu) });
    }
    if memory.is_some_and(|range| !range.contains(bytes)) {
        outside.push(Reason::OutsideRange { request: Amount::memory(obs.allocation.memory) });
    }
    if !outside.is_empty() {
        return (true, outside);
    }
    let part = |range: Option<&Range>, request: f64| {
        range.map_or(0.0, |range| (request - range.target).abs() / request.max(f64::MIN_POSITIVE))
    };
    let difference = part(cpu, cores) + part(memory, bytes);
    if kills > 0 && difference > 0.0 {
        return (true, vec![Reason::OomKilled { kills }]);
    }
    let oldest = obs.replicas.iter().map(|replica| replica.started).min();
    let age = oldest.map(|started| obs.now.saturating_since(started)).unwrap_or_default();
    if age >= config.lifetime && difference >= config.change_threshold.ratio() {
        return (true, vec![Reason::LifetimeOver { age, difference }]);
    }
    (false, vec![Reason::InsideRange])
}

/// A recommendation of CPU in words.
pub(super) fn explain_cpu(range: &Range, request: Millicores) -> Reason {
    let amount = |cores: f64| Amount::cpu(Millicores::new((cores * 1e3).round() as u64));
    explain(range, request.cores(), amount)
}

/// A recommendation of memory in words.
pub(super) fn explain_memory(range: &Range, request: Bytes) -> Reason {
    let amount = |bytes: f64| Amount::memory(Bytes::new(bytes.round() as u64));
    explain(range, request.bytes() as f64, amount)
}

/// An upper bound this many times the target is reported as none. History of less than a few
/// hours gives bounds beyond that, and of the first minutes beyond any machine.
const SPOKEN_OF: f64 = 10.0;

fn explain(range: &Range, request: f64, amount: impl Fn(f64) -> Amount) -> Reason {
    let is_spoken_of = range.upper <= SPOKEN_OF * range.target || request > range.upper;
    Reason::Recommendation {
        target: amount(range.target),
        lower: amount(range.lower),
        upper: (range.upper.is_finite() && is_spoken_of).then(|| amount(range.upper)),
    }
}
