//! Where the next container goes: to the node with the most free memory.

use homeostat_core::Bytes;
use homeostat_des::Tournament;

use super::state::Node;

/// The nodes that are up, ordered by free memory. Follows from the nodes; every change
/// of one must be passed to [`Placement::update`].
#[derive(Debug, Clone, Default)]
pub(super) struct Placement {
    /// The more memory is free on a node, the less is its key.
    nodes: Tournament,
}

/// The key of a node that is up and has no free memory.
const FULL: u64 = Tournament::NONE - 1;

impl Placement {
    /// Takes in a change of a node.
    pub(super) fn update(&mut self, number: usize, node: &Node) {
        let key = FULL.saturating_sub(node.free().bytes());
        self.nodes.set(number, if node.is_up { key } else { Tournament::NONE });
    }

    /// The node with the most free memory, if that is at least as much as needed; of several the
    /// one with the lowest number.
    pub(super) fn find(&self, needed: Bytes) -> Option<usize> {
        let (key, node) = self.nodes.first()?;
        (FULL - key >= needed.bytes()).then_some(node)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use homeostat_core::{Bytes, Fraction, Millicores, SeedTree, SimDuration, Slo};
    use homeostat_decide::Allocation;
    use proptest::prelude::*;

    use super::*;
    use crate::config::{FunctionSetup, NodeConfig, PlatformConfig, Scaling};
    use crate::platform::state::Phase;
    use crate::{FunctionId, Platform, by_name};

    fn setup(allocation: Allocation) -> FunctionSetup {
        FunctionSetup {
            profile: by_name("primes").unwrap(),
            slo: Slo::try_new(Fraction::from_percent(99), SimDuration::from_secs(1)).unwrap(),
            isolated_latency: SimDuration::from_millis(800),
            allocation,
            scaling: Scaling::Managed,
            arrivals: None,
        }
    }

    /// Few sizes, so that several nodes often have the same free memory.
    fn mib(steps: u64) -> Bytes {
        Bytes::from_mib(128 * steps)
    }

    /// What [`Placement::find`] answers, by a scan over all nodes.
    fn scan(nodes: &[Node], needed: Bytes) -> Option<usize> {
        let (mut best, mut most) = (None, Bytes::ZERO);
        for (number, node) in nodes.iter().enumerate() {
            let free = node.free();
            if node.is_up && free >= needed && (best.is_none() || free > most) {
                (best, most) = (Some(number), free);
            }
        }
        best
    }

    fn check(platform: &Platform, ids: &[FunctionId]) -> Result<(), TestCaseError> {
        for needed in (0..12).map(mib) {
            prop_assert_eq!(platform.placement.find(needed), scan(&platform.nodes, needed));
        }
        for id in ids {
            let is_own = |container: &&crate::platform::Container| {
                container.phase != Phase::Gone && container.function as usize == id.0
            };
            let own = platform.containers.iter().filter(is_own);
            let mut expect: Vec<_> = own.map(|container| container.node as usize).collect();
            let mut nodes = platform.nodes_of_containers(id.0);
            expect.sort_unstable();
            nodes.sort_unstable();
            prop_assert_eq!(nodes, expect);
        }
        let functions = platform.functions.iter().enumerate();
        let is_short = functions
            .filter(|(_, function)| (function.containers.len() as u32) < function.wanted.replicas);
        let expect: BTreeSet<u32> = is_short.map(|(number, _)| number as u32).collect();
        prop_assert_eq!(&platform.short_functions, &expect);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_container_goes_where_a_look_at_every_node_would_put_it(
            nodes in prop::collection::vec(4u64..20, 1..20),
            calls in prop::collection::vec((0u8..12, 0usize..64, 0u32..9, 0u64..9), 1..80),
        ) {
            let nodes = nodes.iter().map(|steps| NodeConfig { cores: 4.0, memory: mib(*steps) });
            let config = PlatformConfig {
                nodes: nodes.collect(),
                ..PlatformConfig::uniform(1, 4.0, mib(1))
            };
            let count = config.nodes.len();
            let mut platform = Platform::new(config, &SeedTree::new(1)).unwrap();
            let mut ids = Vec::new();
            for (call, number, replicas, steps) in calls {
                let cpu = Millicores::new(500);
                let wanted = Allocation { replicas, cpu, memory: mib(steps) };
                let id = (!ids.is_empty()).then(|| ids[number % ids.len()]);
                match (call, id) {
                    (0, _) | (_, None) => ids.extend(platform.add_function(setup(wanted))),
                    (1, Some(id)) => {
                        platform.remove_function(id).unwrap();
                        ids.retain(|other| *other != id);
                    }
                    (2, _) => platform.fail_node(number % count).unwrap(),
                    (3 | 4, _) => platform.restore_node(number % count).unwrap(),
                    (5, _) => platform.run_for(SimDuration::from_millis(300 * steps)),
                    // Busy containers are not removed at once, but drained.
                    (6, Some(id)) => (0..replicas).for_each(|_| platform.send(id).unwrap()),
                    // What there is no room for is refused.
                    (_, Some(id)) => drop(platform.set_allocation(id, wanted)),
                }
                check(&platform, &ids)?;
            }
        }
    }
}
