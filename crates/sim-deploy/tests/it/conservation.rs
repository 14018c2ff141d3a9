use homeostat_sim_deploy::{Cluster, ClusterConfig, Resize, Totals};
use proptest::prelude::*;

use crate::setup::{allocation, at, config, deployment, set};

fn check(totals: &Totals, inside: u64) {
    let settled = totals.completed + totals.timed_out + totals.failed;
    assert_eq!(totals.arrived, settled + inside, "{totals:?}");
    assert!(totals.slo_violations <= settled);
    assert_eq!(totals.latency.count(), settled);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn requests_are_conserved_under_every_sequence_of_decisions(
        seed in 0u64..1000,
        is_in_place in any::<bool>(),
        (cpu_over, memory_over) in (1.0f64..3.0, 1.0f64..3.0),
        concurrency in 1u32..40,
        decisions in prop::collection::vec(
            (0usize..2, 0u32..14, 1u64..20, 1u64..20, 0.0f64..20.0), 1..20),
    ) {
        let resize = if is_in_place { Resize::InPlace } else { Resize::Restart };
        let mut cluster = Cluster::new(ClusterConfig {
            resize,
            cpu_limit_over_request: cpu_over,
            memory_limit_over_request: memory_over,
            concurrency,
            // Small nodes: pods stay pending, and memory runs short.
            memory: homeostat_core::Bytes::from_mib(900),
            ..config()
        });
        let first = allocation(2, 500, 256);
        let mut present = [first; 2];
        cluster.add(deployment("image-filter+prime-sieve", first, 25.0, seed));
        cluster.add(deployment("file-read+json-parse", first, 60.0, seed + 7));
        let mut now = 0.0;
        for (target, replicas, cpu, memory, wait) in decisions {
            let wanted = allocation(replicas, cpu * 125, memory * 32);
            set(&mut cluster, target, present[target], wanted);
            present[target] = wanted;
            now += wait;
            cluster.run_until(at(now));
            for number in 0..2 {
                let window = cluster.close_window(number);
                prop_assert!(window.observation.latency.is_some() || window.settled() == 0);
                check(cluster.totals(number), cluster.inside(number));
                // CPU time is finite: never more than the nodes have.
                prop_assert!(cluster.totals(number).cpu_s <= 12.0 * now + 1e-6);
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let play = |seed| {
        let mut cluster = Cluster::new(config());
        let number = cluster.add(deployment("table-scan", allocation(3, 500, 512), 80.0, seed));
        cluster.run_until(at(120.0));
        let window = cluster.close_window(number);
        (window, format!("{:?}", cluster.totals(number)))
    };
    assert_eq!(play(3), play(3));
    assert_ne!(play(3), play(4));
}
