//! Every knob acts on a running platform, in the time it takes in reality.

use homeostat_core::SimDuration;
use homeostat_sim_faas::{Contention, PlatformConfig, Scaling, Timings, Varying};

use crate::setup::{allocation, at, exact, ideal, latency_ms, platform, quiet, seconds, set};

fn close(got: f64, expect: f64, tolerance: f64) {
    assert!((got - expect).abs() <= tolerance, "{got} against {expect}");
}

/// Times without spread, to compute by hand.
fn exact_times(config: PlatformConfig) -> PlatformConfig {
    let still = |varying: Varying| Varying { deviation: SimDuration::ZERO, ..varying };
    let timings = config.timings;
    let timings = Timings {
        resize_cpu: still(timings.resize_cpu),
        resize_memory: still(timings.resize_memory),
        start_warm: still(timings.start_warm),
        start_cold: still(timings.start_cold),
    };
    PlatformConfig { timings, ..config }
}

#[test]
fn a_request_takes_its_cpu_time_and_its_wait() {
    let mut platform = platform(ideal(1, 2.0, 8));
    let id = platform.add_function(quiet(exact(200, 300), allocation(1, 1000, 256))).unwrap();
    platform.send(id).unwrap();
    platform.run_until(at(1.0));
    close(latency_ms(&mut platform, id).1, 500.0, 0.001);
    // The wait uses no CPU.
    close(platform.totals(id).cpu_s, 0.2, 1e-6);
}

#[test]
fn requests_wait_for_the_only_container() {
    let mut platform = platform(ideal(1, 2.0, 8));
    let id = platform.add_function(quiet(exact(200, 0), allocation(1, 1000, 256))).unwrap();
    for _ in 0..3 {
        platform.send(id).unwrap();
    }
    platform.run_until(at(0.3));
    assert_eq!(platform.close_window(id).observation.waiting, 1);
    platform.run_until(at(1.0));
    close(latency_ms(&mut platform, id).1, 600.0, 0.001);
}

#[test]
fn shares_divide_a_full_node_two_milliseconds_after_they_change() {
    let mut platform = platform(exact_times(ideal(1, 1.0, 8)));
    let a = platform.add_function(quiet(exact(1000, 0), allocation(1, 1000, 256))).unwrap();
    let b = platform.add_function(quiet(exact(1000, 0), allocation(1, 1000, 256))).unwrap();
    platform.send(a).unwrap();
    platform.send(b).unwrap();
    set(&mut platform, a, allocation(1, 2000, 256)).unwrap();
    platform.run_until(at(5.0));
    // Half of the core for 2.1 ms, then two thirds: 1.05 ms + 2/3 (t - 2.1 ms) = 1 s.
    close(latency_ms(&mut platform, a).1, 2.1 + 1.5 * (1000.0 - 1.05), 0.01);
    close(latency_ms(&mut platform, b).1, 2000.0, 0.01);
}

#[test]
fn a_container_starts_cold_first_and_warm_where_its_image_is() {
    let mut platform = platform(exact_times(ideal(1, 2.0, 8)));
    let profile = exact(100, 0);
    let start = profile.start_cpu.seconds() * 1e3;
    let id = platform.add_function(quiet(profile, allocation(0, 1000, 256))).unwrap();
    let answer_after_start = |platform: &mut homeostat_sim_faas::Platform, replicas| {
        platform.send(id).unwrap();
        set(platform, id, allocation(replicas, 1000, 256)).unwrap();
        platform.run_for(seconds(10.0));
        let latency = platform.close_window(id).observation.latency.unwrap().seconds() * 1e3;
        set(platform, id, allocation(0, 1000, 256)).unwrap();
        latency
    };
    close(answer_after_start(&mut platform, 1), 2050.8 + start + 100.0, 0.01);
    close(answer_after_start(&mut platform, 1), 45.7 + start + 100.0, 0.01);
    assert_eq!(platform.totals(id).cold_starts, 2);
}

#[test]
fn starting_containers_burn_the_cpu_of_others() {
    let mut platform = platform(exact_times(ideal(1, 1.0, 8)));
    let busy = platform.add_function(quiet(exact(3000, 0), allocation(1, 1000, 256))).unwrap();
    let other = platform.add_function(quiet(exact(100, 0), allocation(0, 1000, 256))).unwrap();
    platform.send(busy).unwrap();
    set(&mut platform, other, allocation(1, 1000, 256)).unwrap();
    platform.run_until(at(9.0));
    // 300 ms of start at equal shares hold the busy one up by as much.
    close(latency_ms(&mut platform, busy).1, 3300.0, 0.01);
}

#[test]
fn too_little_memory_means_waiting_without_cpu_and_far_too_little_the_end() {
    let mut platform = platform(exact_times(ideal(1, 2.0, 8)));
    let profile = exact(200, 0);
    let id = platform.add_function(quiet(profile.clone(), allocation(1, 1000, 160))).unwrap();
    set(&mut platform, id, allocation(1, 1000, 128)).unwrap();
    platform.run_until(at(1.0));
    platform.send(id).unwrap();
    platform.run_until(at(3.0));
    // A quarter of the limit is missing: ten times a quarter of the request's time.
    let window = platform.close_window(id);
    close(window.observation.latency.unwrap().seconds(), 0.2 + 10.0 * 0.25 * 0.2, 1e-6);
    close(window.cpu_s, 0.2, 1e-6);
    set(&mut platform, id, allocation(1, 1000, 64)).unwrap();
    platform.run_until(at(4.0));
    platform.send(id).unwrap();
    platform.run_until(at(9.0));
    let window = platform.close_window(id);
    assert_eq!((window.failed, window.slo_violations, window.observation.oom_kills), (1, 1, 1));
    close(window.observation.latency.unwrap().seconds(), 20.0, 1e-6);
    assert_eq!(window.observation.replicas.len(), 1, "another container takes its place");
}

#[test]
fn a_stuck_function_never_looks_healthy() {
    let mut platform = platform(ideal(1, 2.0, 8));
    let id = platform.add_function(quiet(exact(100, 0), allocation(0, 1000, 256))).unwrap();
    platform.send(id).unwrap();
    platform.run_until(at(5.0));
    let stuck = platform.close_window(id);
    assert_eq!(stuck.completed, 0);
    close(stuck.observation.latency.unwrap().seconds(), 5.0, 1e-6);
    // After 20 s the client has given up; the window that sees it says so.
    platform.run_until(at(30.0));
    let given_up = platform.close_window(id);
    assert_eq!(
        (given_up.timed_out, given_up.slo_violations, given_up.observation.waiting),
        (1, 1, 0)
    );
}

#[test]
fn containers_go_where_memory_is_and_pending_ones_start_later() {
    let mut platform = platform(ideal(2, 2.0, 1));
    let a = platform.add_function(quiet(exact(100, 0), allocation(2, 1000, 768))).unwrap();
    let b = platform.add_function(quiet(exact(100, 0), allocation(0, 1000, 512))).unwrap();
    assert_eq!(set(&mut platform, b, allocation(1, 1000, 512)).unwrap().replicas, 0);
    platform.run_until(at(10.0));
    assert_eq!(platform.close_window(b).observation.replicas.len(), 0);
    set(&mut platform, a, allocation(1, 1000, 768)).unwrap();
    platform.run_until(at(20.0));
    assert_eq!(platform.close_window(b).observation.replicas.len(), 1);
    // A limit that no node has room for is not granted; the rest is.
    let granted = set(&mut platform, a, allocation(1, 500, 4096)).unwrap();
    assert_eq!(granted, allocation(1, 500, 768));
}

#[test]
fn a_lost_node_loses_its_requests_and_its_containers_move() {
    let mut platform = platform(ideal(2, 2.0, 8));
    let id = platform.add_function(quiet(exact(1000, 0), allocation(2, 1000, 256))).unwrap();
    platform.send(id).unwrap();
    platform.send(id).unwrap();
    platform.run_until(at(0.5));
    platform.fail_node(0).unwrap();
    platform.run_until(at(10.0));
    let window = platform.close_window(id);
    assert_eq!((window.completed, window.failed), (1, 1));
    assert_eq!(window.observation.replicas.len(), 2);
    assert!(platform.fail_node(7).is_err());
    platform.fail_node(1).unwrap();
    platform.run_until(at(20.0));
    assert_eq!(platform.close_window(id).observation.replicas.len(), 0);
    platform.restore_node(0).unwrap();
    platform.run_until(at(30.0));
    assert_eq!(platform.close_window(id).observation.replicas.len(), 2);
}

#[test]
fn a_platform_that_scales_itself_starts_on_demand_and_ends_the_idle() {
    let mut platform = platform(ideal(1, 4.0, 8));
    let scaling = Scaling::OnDemand { keep_alive: SimDuration::from_secs(60), most: 3 };
    let setup = quiet(exact(100, 0), allocation(0, 1000, 256));
    let id = platform.add_function(homeostat_sim_faas::FunctionSetup { scaling, ..setup }).unwrap();
    for _ in 0..5 {
        platform.send(id).unwrap();
    }
    platform.run_until(at(30.0));
    let window = platform.close_window(id);
    assert_eq!((window.completed, window.observation.replicas.len()), (5, 3));
    platform.run_until(at(100.0));
    assert_eq!(platform.close_window(id).observation.replicas.len(), 0);
}

#[test]
fn contention_costs_what_its_coefficients_say() {
    let strain = homeostat_des::ContentionCost { shared: 0.0, overload: 0.5 };
    let contention = Contention::new([strain; 4]).unwrap();
    let mut platform = platform(PlatformConfig { contention, ..ideal(1, 2.0, 8) });
    let id = platform.add_function(quiet(exact(1000, 0), allocation(4, 1000, 256))).unwrap();
    for _ in 0..4 {
        platform.send(id).unwrap();
    }
    platform.run_until(at(9.0));
    // Four on two cores: half a core each, and half as much again for contention.
    close(latency_ms(&mut platform, id).1, 3000.0, 0.01);
    close(platform.totals(id).cpu_s, 6.0, 1e-4);
}

#[test]
fn impossible_platforms_are_refused_with_the_numbers() {
    let refused = |config: PlatformConfig| {
        homeostat_sim_faas::Platform::new(config, &homeostat_core::SeedTree::new(1))
            .unwrap_err()
            .to_string()
    };
    assert!(refused(ideal(0, 2.0, 8)).contains("no nodes"));
    assert!(refused(ideal(1, 0.0, 8)).contains("cores is 0"));
    let mut small = platform(ideal(1, 2.0, 1));
    let error = small.add_function(quiet(exact(1, 0), allocation(1, 1000, 2048))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a container of primes takes 2Gi, and the largest node has 1Gi: \
         lower its memory limit or enlarge a node"
    );
}
