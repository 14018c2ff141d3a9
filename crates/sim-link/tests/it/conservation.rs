//! Packets are conserved, whatever the path and the senders.

use homeostat_core::{SeedTree, SimDuration, SimTime};
use homeostat_decide::BitsPerSecond;
use homeostat_sim_link::{
    Bandwidth, Network, PathConfig, Sender, controller_by_name, controller_names,
};
use proptest::prelude::*;

fn senders() -> impl Strategy<Value = Vec<Option<&'static str>>> {
    let names: Vec<_> = controller_names().map(Some).chain([None]).collect();
    prop::collection::vec(prop::sample::select(names), 1..4)
}

fn path() -> impl Strategy<Value = PathConfig> {
    (50_000u64..50_000_000, 0u64..200, 0u32..500, 0.0..0.4, 0.0..2.0, 1u64..5000, any::<bool>())
        .prop_map(|(rate, delay, queue, loss, jitter, every, changes)| {
            let (first, second) = (BitsPerSecond(rate), BitsPerSecond(rate / 3 + 1000));
            let every = SimDuration::from_millis(every);
            PathConfig {
                bandwidth: if changes {
                    Bandwidth::Alternating { first, second, every }
                } else {
                    Bandwidth::Constant(first)
                },
                delay: SimDuration::from_millis(delay),
                queue,
                loss,
                jitter,
            }
        })
}

fn network(path: PathConfig, senders: &[Option<&str>], seed: u64) -> Network {
    let mut network = Network::new(path, &SeedTree::new(seed)).unwrap();
    for name in senders {
        network.add(match name {
            Some(name) => Sender::Controlled(controller_by_name(name).unwrap()),
            None => Sender::Rate(BitsPerSecond(3_000_000)),
        });
    }
    network
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_packet_is_acknowledged_lost_or_in_flight(
        path in path(), senders in senders(), seed in 0u64..1000,
    ) {
        let mut network = network(path, &senders, seed);
        let (mut acked, seconds) = (0, 5);
        for step in 1..=10 {
            let end = SimDuration::from_millis(500 * step);
            network.advance(SimTime::ZERO + end);
            for flow in 0..senders.len() {
                let totals = network.totals(flow);
                let known = totals.acked + totals.lost + network.in_flight(flow);
                prop_assert_eq!(totals.sent, known, "{:?}", totals);
                prop_assert!(totals.dropped + totals.lost_on_wire <= totals.sent);
                // What is declared lost and was not lost arrives in the end.
                prop_assert!(totals.spurious <= totals.lost);
            }
        }
        for flow in 0..senders.len() {
            acked += network.totals(flow).acked + network.totals(flow).spurious;
        }
        let Bandwidth::Constant(rate) = path.bandwidth else { return Ok(()) };
        // The path carries no more than its bandwidth.
        prop_assert!(acked as f64 * 12_000.0 <= rate.0 as f64 * f64::from(seconds) + 12_000.0);
    }

    #[test]
    fn a_seed_repeats_itself(path in path(), senders in senders(), seed in 0u64..1000) {
        let play = || {
            let mut network = network(path, &senders, seed);
            network.advance(SimTime::ZERO + SimDuration::from_secs(3));
            (0..senders.len()).map(|flow| network.totals(flow)).collect::<Vec<_>>()
        };
        prop_assert_eq!(play(), play());
    }
}
