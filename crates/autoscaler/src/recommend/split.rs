//! Divides the size of a pod among its containers.

use std::collections::BTreeMap;

use homeostat_core::{Bounds, Bytes, Millicores};
use homeostat_decide::Allocation;

use crate::api::ContainerPlan;
use crate::guard::Pause;

/// The requests and the needs of one container.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ContainerShare {
    /// Its current CPU request.
    pub(super) cpu_request: Millicores,
    /// Its current memory request.
    pub(super) memory_request: Bytes,
    /// Cores that its history recommends; none without a history.
    pub(super) cpu_need: Option<f64>,
    /// Bytes that its history recommends; none without a history.
    pub(super) memory_need: Option<f64>,
    /// Whether its CPU request, and its memory request, is outside the range that its history
    /// recommends.
    pub(super) is_outside: (bool, bool),
    /// Whether it had an out-of-memory kill recently.
    pub(super) was_oom_killed: bool,
}

/// A pod to divide, and what may change.
pub(super) struct Division<'a> {
    /// The bounds of its containers.
    pub(super) plans: &'a BTreeMap<String, ContainerPlan>,
    /// Its current size.
    pub(super) from: &'a Allocation,
    /// Its new size.
    pub(super) to: &'a Allocation,
    /// Whether requests may move between the containers of a pod whose size stays.
    pub(super) may_move: bool,
    /// Whether the request of a container may fall.
    pub(super) may_shrink: bool,
    /// Whether the request of a container may rise although the size of the pod stays.
    pub(super) may_grow: bool,
    /// The directions that a user paused.
    pub(super) pause: Option<Pause>,
    /// Whether the bounds of the containers apply.
    pub(super) is_bounded: bool,
}

/// Requests move between the containers of a pod whose size stays only if one changes by more than
/// this fraction, since a change may cost a restart.
const MIN_MOVE: f64 = 0.1;

/// One resource of one container.
struct Part {
    request: u64,
    need: f64,
    is_outside: bool,
    may_shrink: bool,
    /// None if the resource is not controlled.
    bounds: Option<Bounds<u64>>,
}

impl Division<'_> {
    /// The new requests of each container. While the size of the pod stays, requests stay, unless
    /// one is outside the range that its history recommends; otherwise the containers get parts in
    /// proportion to their needs. Requests of resources that are not controlled stay.
    pub(super) fn split(
        &self,
        containers: &BTreeMap<String, ContainerShare>,
    ) -> BTreeMap<String, (Millicores, Bytes)> {
        let cpu = containers.iter().map(|(name, share)| {
            let request = share.cpu_request.millicores();
            let bounds = self.plans.get(name).and_then(|plan| plan.cpu);
            Part {
                request,
                need: share.cpu_need.map_or(request as f64, |cores| cores * 1e3),
                is_outside: share.is_outside.0,
                may_shrink: self.may_shrink,
                bounds: bounds.map(|bounds| to_u64(&bounds, Millicores::millicores)),
            }
        });
        let memory = containers.iter().map(|(name, share)| {
            let request = share.memory_request.bytes();
            let bounds = self.plans.get(name).and_then(|plan| plan.memory);
            Part {
                request,
                need: share.memory_need.unwrap_or(request as f64),
                is_outside: share.is_outside.1,
                may_shrink: self.may_shrink && !share.was_oom_killed,
                bounds: bounds.map(|bounds| to_u64(&bounds, Bytes::bytes)),
            }
        });
        let (cpu, memory): (Vec<_>, Vec<_>) = (cpu.collect(), memory.collect());
        let cpu = self.divide(self.from.cpu.millicores(), self.to.cpu.millicores(), &cpu);
        let memory = self.divide(self.from.memory.bytes(), self.to.memory.bytes(), &memory);
        let sizes = cpu.into_iter().map(Millicores::new).zip(memory.into_iter().map(Bytes::new));
        containers.keys().cloned().zip(sizes).collect()
    }

    fn divide(&self, from: u64, to: u64, parts: &[Part]) -> Vec<u64> {
        let sized = || parts.iter().filter(|part| part.bounds.is_some());
        // A container without a request stays without one: the lower bound would starve it.
        let unchanged = |part: &Part| match part.request {
            0 => 0,
            request => self.bounded(part, request),
        };
        let all_unchanged = || parts.iter().map(unchanged).collect();
        let fixed = || parts.iter().filter(|part| part.bounds.is_none());
        let has_fixed = fixed().next().is_some();
        let stays = from == to;
        let may_move = self.may_move || (self.may_grow && has_fixed);
        if stays && !(may_move && sized().any(|part| part.is_outside)) {
            return all_unchanged();
        }
        let free = to.saturating_sub(fixed().map(|part| part.request).sum()) as f64;
        let needs: f64 = sized().map(|part| part.need).sum();
        if needs <= 0.0 {
            return all_unchanged();
        }
        let divided = parts.iter().map(|part| {
            // The size of a pod follows from the usage of all its containers. What uncontrolled
            // ones request and do not use is not taken from the controlled ones.
            let need = if has_fixed { part.need.ceil() as u64 } else { 0 };
            let may_shrink = part.may_shrink && (!stays || self.may_move);
            let low = if may_shrink { need } else { need.max(part.request) };
            let new = self.bounded(part, low.max((free * part.need / needs).round() as u64));
            self.pause.map_or(new, |pause| pause.limit_amount(part.request, new))
        });
        let divided: Vec<u64> = divided.collect();
        let moves = |(part, &new): (&Part, &u64)| {
            part.request.abs_diff(new) as f64 > MIN_MOVE * part.request as f64
        };
        if stays && !parts.iter().zip(&divided).any(moves) { all_unchanged() } else { divided }
    }

    fn bounded(&self, part: &Part, amount: u64) -> u64 {
        match part.bounds {
            Some(bounds) if self.is_bounded => bounds.clamp(amount),
            Some(_) => amount,
            None => part.request,
        }
    }
}

fn to_u64<T: Copy + PartialOrd + std::fmt::Display>(
    bounds: &Bounds<T>,
    number: fn(T) -> u64,
) -> Bounds<u64> {
    Bounds::try_new(number(bounds.low()), number(bounds.high()))
        .expect("the conversion is monotone")
}
