//! Processor sharing has known means, whatever the distribution of the work: M/G/1-PS, and M/G/c
//! with at most one core for each request, whose mean is that of M/M/c.

use homeostat_sim_deploy::{Application, Cluster, ClusterConfig};

use crate::setup::{allocation, at, config, deployment};

/// Mean latency over mean work, and mean number inside, of one pod with so many cores, by seed.
fn means(cores: u64, load: f64, seeds: std::ops::Range<u64>) -> (Vec<f64>, Vec<f64>) {
    const SECONDS: f64 = 4000.0;
    let work = Application::parse("compression").unwrap().mean_cpu().seconds();
    let per_second = load * cores as f64 / work;
    let mut latencies = Vec::new();
    let mut little = Vec::new();
    for seed in seeds {
        let mut cluster = Cluster::new(ClusterConfig {
            concurrency: u32::MAX,
            memory: homeostat_core::Bytes::from_mib(1 << 20),
            ..config()
        });
        let size = allocation(1, cores * 1000, 1 << 19);
        let number = cluster.add(deployment("compression", size, per_second, 100 * seed));
        cluster.run_until(at(SECONDS));
        let window = cluster.close_window(number);
        let totals = cluster.totals(number);
        let mean = totals.latency.mean().unwrap().seconds();
        latencies.push(mean / work);
        let rate = totals.arrived as f64 / SECONDS;
        little.push(window.observation.concurrency / (rate * mean));
        // Utilisation is load, whatever the discipline.
        let use_of_cores = window.cpu_s / SECONDS / cores as f64;
        assert!((use_of_cores / load - 1.0).abs() < 0.02, "{use_of_cores} at load {load}");
    }
    (latencies, little)
}

/// Asserts that a mean is within its 99 % interval (t with 9 degrees of freedom: 3.25).
fn check(figures: &[f64], expect: f64) {
    let n = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / n;
    let variance = figures.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = 3.25 * (variance / n).sqrt();
    assert!((mean - expect).abs() <= half, "{mean} +- {half}, theory {expect}");
    assert!(half < 0.05 * expect, "too wide to tell: {half}");
}

#[test]
fn one_core_has_the_mean_of_an_m_g_1_processor_sharing_queue() {
    for load in [0.3, 0.7] {
        let (latencies, little) = means(1, load, 0..10);
        check(&latencies, 1.0 / (1.0 - load));
        for ratio in little {
            assert!((ratio - 1.0).abs() < 0.01, "Little's law: {ratio}");
        }
    }
}

#[test]
fn four_cores_have_the_mean_of_an_m_m_4_queue() {
    let (load, c) = (0.8, 4.0);
    let offered: f64 = load * c;
    // Erlang's C: the probability of waiting.
    let terms: Vec<f64> = [1.0, 1.0, 2.0, 6.0]
        .iter()
        .enumerate()
        .map(|(k, factorial)| offered.powi(k as i32) / factorial)
        .collect();
    let last = offered.powi(4) / 24.0 / (1.0 - load);
    let waits = last / (terms.iter().sum::<f64>() + last);
    let (latencies, _) = means(4, load, 0..10);
    check(&latencies, 1.0 + waits / (c * (1.0 - load)));
}

#[test]
fn busy_pods_share_a_node_by_their_requests() {
    // Two pods want more than the four cores of one node; their requests are one to three.
    let mut cluster =
        Cluster::new(ClusterConfig { nodes: 1, cpu_limit_over_request: 4.0, ..config() });
    let small = cluster.add(deployment("compression", allocation(1, 1000, 1024), 1000.0, 1));
    let large = cluster.add(deployment("compression", allocation(1, 3000, 1024), 1000.0, 9));
    cluster.run_until(at(100.0));
    let used = [small, large].map(|number| cluster.close_window(number).cpu_s / 100.0);
    assert!((used[0] - 1.0).abs() < 0.02 && (used[1] - 3.0).abs() < 0.02, "{used:?}");
}
