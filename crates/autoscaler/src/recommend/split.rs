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
        let needs: f64 = sized().map(|part| part.need).sum();
        if needs <= 0.0 {
            return all_unchanged();
        }
        let free = to.saturating_sub(fixed().map(|part| part.request).sum());
        let ranges: Vec<Range> = sized().map(|part| self.range(part, stays, has_fixed)).collect();
        let mut divided = divide_in_ranges(free, &ranges).into_iter();
        let divided = parts.iter().map(|part| match part.bounds {
            Some(_) => divided.next().expect("there is one for each controlled container"),
            None => part.request,
        });
        let divided: Vec<u64> = divided.collect();
        let moves = |(part, &new): (&Part, &u64)| {
            part.request.abs_diff(new) as f64 > MIN_MOVE * part.request as f64
        };
        if stays && !parts.iter().zip(&divided).any(moves) { all_unchanged() } else { divided }
    }

    /// What a controlled container may get.
    fn range(&self, part: &Part, stays: bool, has_fixed: bool) -> Range {
        // The size of a pod follows from the usage of all its containers. What uncontrolled ones
        // request and do not use is not taken from the controlled ones.
        let need = if has_fixed { part.need.ceil() as u64 } else { 0 };
        let may_shrink = part.may_shrink && (!stays || self.may_move);
        let low = if may_shrink { need } else { need.max(part.request) };
        let ends = [low, u64::MAX].map(|end| {
            let inside = self.bounded(part, end);
            self.pause.map_or(inside, |pause| pause.limit_amount(part.request, inside))
        });
        Range { low: ends[0], high: ends[1], need: part.need }
    }

    fn bounded(&self, part: &Part, amount: u64) -> u64 {
        match part.bounds {
            Some(bounds) if self.is_bounded => bounds.clamp(amount),
            Some(_) => amount,
            None => part.request,
        }
    }
}

/// What one container may get of a resource, and its weight.
#[derive(Debug, Clone, Copy)]
struct Range {
    low: u64,
    high: u64,
    need: f64,
}

/// Halvings that are enough for needs of any sizes: the interval ends between two neighbouring numbers.
const BISECTIONS: u32 = 128;

/// Divides an amount in proportion to needs, with each part inside its range. The parts add up to the
/// amount if any parts inside the ranges do, so that a pod gets the size that was decided: what one
/// container cannot take goes to the others.
fn divide_in_ranges(amount: u64, ranges: &[Range]) -> Vec<u64> {
    let parts_at = |level: f64| -> Vec<u64> {
        let part = |range: &Range| ((level * range.need) as u64).clamp(range.low, range.high);
        ranges.iter().map(part).collect()
    };
    let sum = |parts: &[u64]| parts.iter().map(|part| u128::from(*part)).sum::<u128>();
    let needs = ranges.iter().map(|range| range.need).filter(|need| *need > 0.0);
    let (mut level, mut too_high) = (0.0, (amount as f64 + 1.0) / needs.fold(f64::MAX, f64::min));
    for _ in 0..BISECTIONS {
        let middle = (level + too_high) / 2.0;
        let fits = sum(&parts_at(middle)) <= u128::from(amount);
        *if fits { &mut level } else { &mut too_high } = middle;
    }
    let mut parts = parts_at(level);
    // What rounding left, and what no container needs.
    let mut rest = u64::try_from(u128::from(amount).saturating_sub(sum(&parts))).unwrap_or(0);
    for (part, range) in parts.iter_mut().zip(ranges) {
        let more = rest.min(range.high - *part);
        *part += more;
        rest -= more;
    }
    parts
}

fn to_u64<T: Copy + PartialOrd + std::fmt::Display>(
    bounds: &Bounds<T>,
    number: fn(T) -> u64,
) -> Bounds<u64> {
    Bounds::try_new(number(bounds.low()), number(bounds.high()))
        .expect("the conversion is monotone")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(low: u64, high: u64, need: f64) -> Range {
        Range { low, high, need }
    }

    #[test]
    fn what_one_container_cannot_take_goes_to_the_others() {
        let check = |amount, ranges: &[Range], expect: &[u64]| {
            assert_eq!(divide_in_ranges(amount, ranges), expect, "{amount} in {ranges:?}");
        };
        let (any, small) = ([range(0, 2000, 300.0), range(0, 2000, 100.0)], range(50, 200, 300.0));
        check(800, &any, &[600, 200]);
        check(800, &[small, any[1]], &[200, 600]);
        check(800, &[small, range(0, 300, 100.0), any[1]], &[200, 300, 300]);
        check(100, &[range(0, 2000, 900.0), range(80, 100, 100.0)], &[20, 80]);
        // No parts inside the ranges add up to the amount: the nearest do.
        check(10, &[small, range(20, 30, 1.0)], &[50, 20]);
        check(900, &[small, range(20, 30, 1.0)], &[200, 30]);
        // Without needs the first takes what it can.
        check(100, &[range(10, 40, 0.0), range(10, 70, 0.0)], &[40, 60]);
    }

    proptest! {
        #[test]
        fn the_parts_are_inside_their_ranges_and_add_up_to_the_amount(
            ranges in prop::collection::vec((0..1u64 << 34, 0..1u64 << 34, 0.0..1e10), 1..6),
            share in 0.0..1.0,
        ) {
            let of = |&(low, more, need): &(u64, u64, f64)| range(low, low + more, need);
            let ranges: Vec<Range> = ranges.iter().map(of).collect();
            let low: u64 = ranges.iter().map(|range| range.low).sum();
            let high: u64 = ranges.iter().map(|range| range.high).sum();
            let amount = low + ((high - low) as f64 * share) as u64;
            let parts = divide_in_ranges(amount, &ranges);
            prop_assert_eq!(parts.iter().sum::<u64>(), amount);
            for (part, range) in parts.iter().zip(&ranges) {
                prop_assert!((range.low..=range.high).contains(part));
            }
        }
    }
}
