//! Mean sojourn times that queueing theory knows. A request of one service waits for a thread, then
//! shares the cores of its replica.

use homeostat_core::SeedTree;
use homeostat_sim_mesh::Mesh;

use crate::setup::queue;

/// Mean sojourn time over mean demand, by seed.
fn sojourns(cores: u32, threads: u32, load: f64) -> Vec<f64> {
    let per_second = load * f64::from(cores) * 1000.0;
    let sojourn = |seed| {
        let mut mesh = Mesh::new(queue(cores, threads, per_second), &SeedTree::new(seed)).unwrap();
        mesh.run_for(60.0 / f64::from(cores));
        mesh.totals(0).latency.mean().unwrap().seconds() / 1e-3
    };
    (100..110).map(sojourn).collect()
}

/// Asserts that a mean is within its 99 % interval (t with 9 degrees of freedom: 3.25).
fn check(figures: &[f64], expect: f64) {
    let n = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / n;
    let variance = figures.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = 3.25 * (variance / n).sqrt();
    assert!((mean - expect).abs() <= half, "{mean} +- {half}, theory {expect}");
    assert!(half < 0.1 * expect, "the interval is too wide to tell: {half}");
}

/// Probability that an arrival finds all servers busy (Erlang C).
fn erlang_c(servers: u32, load: f64) -> f64 {
    let offered = load * f64::from(servers);
    let (mut term, mut sum) = (1.0, 0.0);
    for k in 0..servers {
        sum += term;
        term *= offered / f64::from(k + 1);
    }
    let busy = term / (1.0 - load);
    busy / (sum + busy)
}

#[test]
fn a_thread_for_each_core_is_an_m_m_c_queue() {
    for (cores, load) in [(1, 0.5), (1, 0.8), (4, 0.8)] {
        let waiting = erlang_c(cores, load) / (f64::from(cores) * (1.0 - load));
        check(&sojourns(cores, cores, load), 1.0 + waiting);
    }
}

#[test]
fn threads_without_end_share_the_cores_with_the_mean_of_m_m_c() {
    for (cores, load) in [(1, 0.7), (4, 0.8)] {
        let waiting = erlang_c(cores, load) / (f64::from(cores) * (1.0 - load));
        check(&sojourns(cores, u32::MAX, load), 1.0 + waiting);
    }
}

#[test]
fn use_of_cpu_is_the_load() {
    let mut mesh = Mesh::new(queue(2, u32::MAX, 1200.0), &SeedTree::new(4)).unwrap();
    mesh.run_for(60.0);
    let length = homeostat_core::SimDuration::from_secs(60);
    let millicores = mesh.close_service_windows(length)[0].usage[0];
    assert!((millicores / 1200.0 - 1.0).abs() < 0.02, "{millicores}");
}
