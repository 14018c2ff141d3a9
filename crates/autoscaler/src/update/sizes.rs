//! Sizes of pods, by container, and when two of them count as equal.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use homeostat_core::{Bytes, Millicores};

/// A request within this fraction of the recommendation counts as equal: a small difference is not
/// worth a restart.
pub const TOLERANCE: f64 = 0.05;

/// The CPU and memory requests of each container.
pub type Sizes = BTreeMap<String, (Millicores, Bytes)>;

/// The wanted size of each container; containers without one do not change.
pub type WantedSizes = BTreeMap<String, WantedSize>;

/// The wanted size of a container; resources without one do not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WantedSize {
    /// CPU.
    pub cpu: Option<Millicores>,
    /// Memory.
    pub memory: Option<Bytes>,
}

impl From<(Millicores, Bytes)> for WantedSize {
    fn from((cpu, memory): (Millicores, Bytes)) -> Self {
        Self { cpu: Some(cpu), memory: Some(memory) }
    }
}

/// The lowest and the highest size that count as equal to a recommended one.
pub fn tolerated((cpu, memory): (Millicores, Bytes)) -> ((Millicores, Bytes), (Millicores, Bytes)) {
    let (low_cpu, high_cpu) = within_tolerance(cpu.millicores()).into_inner();
    let (low_memory, high_memory) = within_tolerance(memory.bytes()).into_inner();
    let size = |cpu, memory| (Millicores::new(cpu), Bytes::new(memory));
    (size(low_cpu, low_memory), size(high_cpu, high_memory))
}

/// The amounts that count as equal to an amount.
pub(super) fn within_tolerance(amount: u64) -> RangeInclusive<u64> {
    let low = (amount as f64 * (1.0 - TOLERANCE)).ceil() as u64;
    low..=(amount as f64 * (1.0 + TOLERANCE)) as u64
}

/// Whether the requests of a pod are within the tolerance of the wanted sizes.
pub fn fits(sizes: &Sizes, wanted: &WantedSizes) -> bool {
    let is_near = |wanted: Option<u64>, amount: u64| {
        wanted.is_none_or(|wanted| within_tolerance(wanted).contains(&amount))
    };
    wanted.iter().all(|(name, wanted)| {
        sizes.get(name).is_none_or(|(cpu, memory)| {
            is_near(wanted.cpu.map(Millicores::millicores), cpu.millicores())
                && is_near(wanted.memory.map(Bytes::bytes), memory.bytes())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_without_a_wanted_size_may_have_any_size() {
        let size = |cpu, memory| (Millicores::new(cpu), Bytes::from_mib(memory));
        let has = |cpu, memory| Sizes::from([("app".to_owned(), size(cpu, memory))]);
        let cpu = WantedSize { cpu: Some(Millicores::new(250)), memory: None };
        let only_cpu = WantedSizes::from([("app".to_owned(), cpu)]);
        assert!(fits(&has(250, 128), &only_cpu));
        // A user raised it in the template.
        assert!(fits(&has(250, 4096), &only_cpu));
        assert!(!fits(&has(500, 128), &only_cpu));
        assert!(fits(&has(500, 4096), &WantedSizes::new()));
    }
}
