//! ENSURE.

use homeostat_decide::{Ensure, EnsureConfig, Observation, Policy};

use crate::observations::{millis, observation, replicas_of, secs, words_of};

fn ensure() -> Ensure {
    EnsureConfig::default().build().unwrap()
}

/// Alone a request takes 100 ms here.
fn under(arrivals_per_s: f64, latency_millis: u64) -> Observation {
    let latency = Some(millis(latency_millis));
    Observation { arrivals_per_s, latency, ..observation(0, 1, 0.5) }
}

#[test]
fn it_keeps_a_square_root_of_containers_to_spare() {
    let check = |arrivals, expect| {
        assert_eq!(replicas_of(&mut ensure(), &under(arrivals, 100)), expect, "{arrivals}/s");
    };
    check(0.0, 0.0);
    // R = 1, 4, 9, 100: R + 2 * sqrt(R).
    check(10.0, 3.0);
    check(40.0, 8.0);
    check(90.0, 15.0);
    check(1000.0, 120.0);
    let words = words_of(&mut ensure(), &under(40.0, 100));
    assert!(
        words.starts_with("offered load 4.00 plus 2 times its square root needs 8 replicas"),
        "{words}"
    );
}

#[test]
fn a_given_service_time_replaces_the_isolated_latency() {
    let config = EnsureConfig { service_time: Some(millis(25)), ..EnsureConfig::default() };
    assert_eq!(replicas_of(&mut config.build().unwrap(), &under(40.0, 100)), 3.0);
}

#[test]
fn containers_stay_until_the_need_has_been_lower_three_times() {
    let mut ensure = ensure();
    let mut seen = Vec::new();
    let mut replicas = 1;
    for arrivals in [90.0, 10.0, 10.0, 10.0] {
        let mut obs = under(arrivals, 100);
        obs.allocation.replicas = replicas;
        replicas = replicas_of(&mut ensure, &obs) as u32;
        seen.push(replicas);
    }
    assert_eq!(seen, [15, 15, 15, 3]);
}

#[test]
fn an_earlier_need_that_was_never_met_asks_for_nothing() {
    let mut ensure = ensure();
    ensure.propose(&under(90.0, 100));
    let mut obs = under(10.0, 100);
    obs.allocation.replicas = 5;
    assert_eq!(replicas_of(&mut ensure, &obs), 5.0);
}

#[test]
fn cpu_grows_by_128_shares_beyond_the_threshold() {
    let check = |config: EnsureConfig, latency, expect| {
        let proposal = config.build().unwrap().propose(&under(10.0, latency));
        assert_eq!(proposal.cpu_cores, expect, "{latency} ms");
    };
    check(EnsureConfig::default(), 115, 1.0);
    check(EnsureConfig::default(), 116, 1.125);
    check(EnsureConfig::util(), 125, 1.0);
    check(EnsureConfig::util(), 126, 1.125);
}

#[test]
fn cpu_shrinks_after_three_comfortable_observations_and_proves_each_step() {
    let mut ensure = ensure();
    let mut cores = |latency| ensure.propose(&under(10.0, latency)).cpu_cores;
    let seen: Vec<_> = [105, 105, 105, 105, 105, 110, 105, 105, 105].map(&mut cores).to_vec();
    assert_eq!(seen, [1.0, 1.0, 0.875, 1.0, 1.0, 1.0, 1.0, 1.0, 0.875]);
}

#[test]
fn without_requests_cpu_stays_and_the_last_step_is_never_taken() {
    let idle = Observation { latency: None, ..under(0.0, 0) };
    assert_eq!(ensure().propose(&idle).cpu_cores, 1.0);
    let config = EnsureConfig { calm_observations: 1, ..EnsureConfig::default() };
    let mut obs = under(10.0, 100);
    obs.allocation.cpu = config.cpu_step;
    assert_eq!(config.build().unwrap().propose(&obs).cpu_cores, 0.125);
}

#[test]
fn an_arrival_rate_that_is_no_number_changes_no_replicas() {
    let mut ensure = ensure();
    assert_eq!(replicas_of(&mut ensure, &under(f64::NAN, 100)), 1.0);
    assert_eq!(replicas_of(&mut ensure, &under(10.0, 100)), 3.0);
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let config = EnsureConfig { service_time: Some(secs(0)), ..EnsureConfig::default() };
    assert_eq!(config.build().unwrap_err().to_string(), "service_time must be above 0, got 0ns");
    assert!(EnsureConfig { spare: f64::NAN, ..EnsureConfig::default() }.build().is_err());
}
