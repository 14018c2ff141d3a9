use homeostat_core::Bytes;
use homeostat_sim_deploy::{Application, Cluster, ClusterConfig, Resize};

use crate::setup::{allocation, at, config, deployment, set};

#[test]
fn a_new_pod_serves_after_creation_and_start_up() {
    let mut cluster = Cluster::new(config());
    let (one, two) = (allocation(1, 500, 256), allocation(2, 500, 256));
    let number = cluster.add(deployment("json-parse", one, 1.0, 1));
    set(&mut cluster, number, one, two);
    // Two seconds of creation, then one core-second on half a core.
    cluster.run_until(at(3.9));
    assert_eq!(cluster.ready(number), 1);
    cluster.run_until(at(4.1));
    assert_eq!(cluster.ready(number), 2);
    assert_eq!(cluster.close_window(number).cold_starts, 1);
}

#[test]
fn pods_without_room_stay_pending_until_others_leave() {
    let mut cluster = Cluster::new(ClusterConfig { nodes: 1, ..config() });
    let (first, more) = (allocation(2, 1000, 256), allocation(4, 1000, 256));
    let one = cluster.add(deployment("json-parse", first, 1.0, 1));
    let other = cluster.add(deployment("json-parse", first, 1.0, 2));
    set(&mut cluster, one, first, more);
    cluster.run_until(at(60.0));
    assert_eq!(cluster.ready(one), 2);
    let seen = cluster.close_window(one).observation;
    assert_eq!((seen.replicas.len(), seen.serving()), (4, 2));
    set(&mut cluster, other, first, allocation(0, 1000, 256));
    cluster.run_until(at(70.0));
    assert_eq!((cluster.ready(one), cluster.ready(other)), (4, 0));
}

#[test]
fn a_resize_in_place_restarts_nothing_and_a_rolling_update_keeps_most_pods_ready() {
    let (small, large) = (allocation(4, 500, 256), allocation(4, 1000, 512));
    for (resize, restarts) in [(Resize::InPlace, 0), (Resize::Restart, 4)] {
        let mut cluster = Cluster::new(ClusterConfig { resize, ..config() });
        let number = cluster.add(deployment("json-parse", small, 50.0, 1));
        cluster.run_until(at(5.0));
        set(&mut cluster, number, small, large);
        let mut fewest = usize::MAX;
        for tenths in 50..400 {
            cluster.run_until(at(f64::from(tenths) / 10.0));
            fewest = fewest.min(cluster.ready(number));
        }
        let window = cluster.close_window(number);
        assert_eq!(window.cold_starts, restarts, "{resize:?}");
        assert_eq!((window.failed, window.observation.measured), (0, None), "{resize:?}");
        assert!(fewest >= 3 && cluster.ready(number) == 4, "{resize:?}: {fewest}");
        let sizes = window.observation.replicas.iter().map(|one| one.cpu_request);
        assert!(sizes.into_iter().all(|cpu| cpu == Some(large.cpu)));
    }
}

#[test]
fn a_larger_pod_waits_until_its_node_has_room() {
    let mut cluster = Cluster::new(ClusterConfig { nodes: 1, ..config() });
    let (small, large) = (allocation(2, 1000, 256), allocation(2, 3000, 256));
    let number = cluster.add(deployment("json-parse", small, 1.0, 1));
    set(&mut cluster, number, small, large);
    cluster.run_until(at(10.0));
    let seen = cluster.close_window(number).observation;
    assert_eq!(
        (seen.allocation.cpu, seen.measured.unwrap().cpu),
        (large.cpu, allocation(1, 2000, 1).cpu)
    );
}

#[test]
fn a_pod_over_its_limit_is_killed_and_backs_off() {
    let resident = Application::parse("model-serving").unwrap().resident();
    let too_small = allocation(1, 1000, resident.mib() as u64 - 8);
    let mut cluster = Cluster::new(config());
    let number = cluster.add(deployment("model-serving", too_small, 5.0, 1));
    cluster.run_until(at(100.0));
    let window = cluster.close_window(number);
    // Kills at 0, 1, 12, 33 and 74 s: at once, then after 10, 20 and 40 s, and a second of start-up.
    assert_eq!(window.observation.oom_kills, 5);
    assert_eq!((window.completed, window.observation.serving()), (0, 0));
    assert!(window.timed_out > 400, "{}", window.timed_out);
    // Enough memory cures it when the back-off is over.
    set(&mut cluster, number, too_small, allocation(1, 1000, 1024));
    cluster.run_until(at(400.0));
    assert!(cluster.close_window(number).completed > 500);
}

#[test]
fn requests_in_service_need_memory() {
    let need = Application::parse("image-filter").unwrap();
    let two_fit = (need.full_memory(2).bytes() >> 20) + 1;
    let run = |per_second| {
        let mut cluster = Cluster::new(config());
        let number =
            cluster.add(deployment("image-filter", allocation(1, 500, two_fit), per_second, 1));
        cluster.run_until(at(120.0));
        cluster.close_window(number).observation.oom_kills
    };
    // Alone a request fits; a queue of them does not.
    assert_eq!(run(0.5), 0);
    assert!(run(80.0) > 3);
}

#[test]
fn a_node_short_of_memory_evicts_the_pod_furthest_above_its_request() {
    let mut cluster = Cluster::new(ClusterConfig {
        nodes: 1,
        memory: Bytes::from_mib(600),
        memory_limit_over_request: 4.0,
        ..config()
    });
    let modest = allocation(1, 1000, 1024);
    let quiet = cluster.add(deployment("json-parse", modest, 1.0, 1));
    let greedy = cluster.add(deployment("model-serving+image-filter", modest, 200.0, 5));
    cluster.run_until(at(60.0));
    cluster.close_window(quiet);
    cluster.close_window(greedy);
    assert!(cluster.totals(greedy).evictions > 0, "{:?}", cluster.totals(greedy));
    assert_eq!(cluster.totals(quiet).evictions, 0);
}

#[test]
fn a_deleted_pod_finishes_its_requests() {
    let mut cluster = Cluster::new(config());
    let (four, one) = (allocation(4, 1000, 512), allocation(1, 1000, 512));
    let number = cluster.add(deployment("file-write", four, 100.0, 1));
    cluster.run_until(at(10.0));
    set(&mut cluster, number, four, one);
    cluster.run_until(at(20.0));
    let window = cluster.close_window(number);
    assert_eq!((window.failed, window.timed_out), (0, 0));
    assert_eq!(window.observation.serving(), 1);
}

#[test]
fn caches_without_memory_cost_latency() {
    let app = Application::parse("table-scan").unwrap();
    let little = (app.resident().bytes() >> 20) + 24;
    let p99 = |mebibytes| {
        let mut cluster = Cluster::new(config());
        let number = cluster.add(deployment("table-scan", allocation(1, 1000, mebibytes), 20.0, 1));
        cluster.run_until(at(60.0));
        let window = cluster.close_window(number);
        assert_eq!(window.observation.oom_kills, 0);
        window.observation.latency.unwrap().seconds()
    };
    assert!(p99(little) > p99(512) + 0.008, "{} {}", p99(little), p99(512));
}

#[test]
fn requests_that_no_pod_serves_are_given_up_when_their_time_is_over() {
    let mut cluster = Cluster::new(config());
    let none = allocation(0, 1000, 256);
    let number = cluster.add(deployment("json-parse", none, 50.0, 1));
    cluster.run_until(at(100.0));
    let window = cluster.close_window(number);
    let inside = cluster.inside(number) as f64;
    assert_eq!((window.completed, window.failed), (0, 0));
    // 50 requests a second, each of which waits for ten seconds: Little's law.
    assert!((inside / 500.0 - 1.0).abs() < 0.15, "{inside}");
    // The first ten seconds fill the queue, so that the mean is 5 % below 500.
    let mean = window.observation.concurrency;
    assert!((mean / 475.0 - 1.0).abs() < 0.05, "{mean}");
}

#[test]
fn the_scheduler_spreads_pods_over_the_nodes() {
    // Pods use up to four times their request where their node has cores to spare: three pods on
    // three nodes have four cores each, three on one node have four together.
    let used = |nodes| {
        let over = ClusterConfig { nodes, cpu_limit_over_request: 4.0, ..config() };
        let mut cluster = Cluster::new(over);
        let number = cluster.add(deployment("compression", allocation(3, 1000, 2048), 2000.0, 1));
        cluster.run_until(at(30.0));
        cluster.close_window(number).cpu_s / 30.0
    };
    let (one, three) = (used(1), used(3));
    assert!((one - 4.0).abs() < 0.1 && (three - 12.0).abs() < 0.3, "{one} {three}");
}
