//! What is decided for a pod, divided among its containers.

use std::collections::BTreeMap;

use homeostat_core::{Bounds, Bytes, Millicores};
use homeostat_decide::Allocation;

use crate::api::ContainerPlan;
use crate::guard::Pause;

/// What one container has and uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ContainerShare {
    /// CPU that it requests now.
    pub(super) cpu_request: Millicores,
    /// Memory that it requests now.
    pub(super) memory_request: Bytes,
    /// Cores that its history asks for; none without one.
    pub(super) cpu_need: Option<f64>,
    /// Bytes that its history asks for; none without one.
    pub(super) memory_need: Option<f64>,
    /// Whether its history does not leave its request of CPU, or of memory, alone.
    pub(super) is_outside: (bool, bool),
    /// Whether it was killed for want of memory lately.
    pub(super) was_killed: bool,
}

/// How a pod is divided.
pub(super) struct Division<'a> {
    /// Bounds of its containers.
    pub(super) plans: &'a BTreeMap<String, ContainerPlan>,
    /// What the pod has.
    pub(super) from: &'a Allocation,
    /// What it is to have.
    pub(super) to: &'a Allocation,
    /// Whether a pod whose size stays may be divided anew.
    pub(super) may_move: bool,
    /// Whether a container may have less than it has.
    pub(super) may_shrink: bool,
    /// Whether a container may have more than it has though the pod's size stays.
    pub(super) may_grow: bool,
    /// What people paused.
    pub(super) pause: Option<Pause>,
    /// Whether the containers' own bounds hold.
    pub(super) is_bounded: bool,
}

/// A pod whose size stays is divided anew only if that moves a request by a tenth: each change
/// costs a restart.
const WORTH_IT: f64 = 0.1;

/// One resource of one container.
struct Part {
    request: u64,
    need: f64,
    is_outside: bool,
    /// Whether it may have less than it has.
    may_shrink: bool,
    /// None if it is not sized.
    bounds: Option<Bounds<u64>>,
}

impl Division<'_> {
    /// What each container should request. While the size of the pod stays, containers keep what
    /// they have, unless the history of one does not leave it alone; else they get parts in
    /// proportion to their needs. Containers that are not sized keep what they have.
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
                bounds: bounds.map(|bounds| in_numbers(&bounds, Millicores::millicores)),
            }
        });
        let memory = containers.iter().map(|(name, share)| {
            let request = share.memory_request.bytes();
            let bounds = self.plans.get(name).and_then(|plan| plan.memory);
            Part {
                request,
                need: share.memory_need.unwrap_or(request as f64),
                is_outside: share.is_outside.1,
                may_shrink: self.may_shrink && !share.was_killed,
                bounds: bounds.map(|bounds| in_numbers(&bounds, Bytes::bytes)),
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
        // Who requests nothing goes on so: the least that bounds allow would starve it.
        let keep = |part: &Part| match part.request {
            0 => 0,
            request => self.bounded(part, request),
        };
        let kept = || parts.iter().map(keep).collect();
        let fixed = || parts.iter().filter(|part| part.bounds.is_none());
        let has_fixed = fixed().next().is_some();
        let stays = from == to;
        let may_move = self.may_move || (self.may_grow && has_fixed);
        if stays && !(may_move && sized().any(|part| part.is_outside)) {
            return kept();
        }
        let free = to.saturating_sub(fixed().map(|part| part.request).sum()) as f64;
        let needs: f64 = sized().map(|part| part.need).sum();
        if needs <= 0.0 {
            return kept();
        }
        let divided = parts.iter().map(|part| {
            // The pod is sized by what all of it uses. What others request and do not use is not
            // taken from those that can be sized.
            let need = if has_fixed { part.need.ceil() as u64 } else { 0 };
            let may_shrink = part.may_shrink && (!stays || self.may_move);
            let least = if may_shrink { need } else { need.max(part.request) };
            let new = self.bounded(part, least.max((free * part.need / needs).round() as u64));
            self.pause.map_or(new, |pause| pause.limit_amount(part.request, new))
        });
        let divided: Vec<u64> = divided.collect();
        let moves = |(part, &new): (&Part, &u64)| {
            part.request.abs_diff(new) as f64 > WORTH_IT * part.request as f64
        };
        if stays && !parts.iter().zip(&divided).any(moves) { kept() } else { divided }
    }

    fn bounded(&self, part: &Part, amount: u64) -> u64 {
        match part.bounds {
            Some(bounds) if self.is_bounded => bounds.clamp(amount),
            Some(_) => amount,
            None => part.request,
        }
    }
}

fn in_numbers<T: Copy + PartialOrd + std::fmt::Display>(
    bounds: &Bounds<T>,
    number: fn(T) -> u64,
) -> Bounds<u64> {
    Bounds::try_new(number(bounds.low()), number(bounds.high())).expect("in the same order")
}
