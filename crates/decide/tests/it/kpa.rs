//! Knative's autoscaler.

use homeostat_decide::{Kpa, KpaConfig, Observation};

use crate::observations::{observation, replicas_of, secs, words_of};

/// Two seconds of this concurrency on this many ready replicas.
fn tick(seconds: u64, ready: u32, concurrency: f64) -> Observation {
    Observation { window: secs(2), concurrency, ..observation(seconds, ready, 0.1) }
}

/// Ten requests aimed at in each replica.
fn kpa() -> Kpa {
    KpaConfig::with_concurrency(10.0 / 0.7).build().unwrap()
}

/// Runs at constant concurrency, every proposal carried out at once; the last number.
fn run(kpa: &mut Kpa, ticks: std::ops::Range<u64>, mut ready: u32, concurrency: f64) -> u32 {
    for step in ticks {
        ready = replicas_of(kpa, &tick(2 * step, ready, concurrency)) as u32;
    }
    ready
}

#[test]
fn replicas_follow_the_mean_concurrency_over_the_target() {
    assert_eq!(run(&mut kpa(), 0..40, 1, 15.0), 2);
    let words = words_of(&mut kpa(), &tick(0, 1, 15.0));
    assert!(words.starts_with("concurrency 15.0 (panic window 15.0) against 10.0 each"), "{words}");
}

#[test]
fn the_default_target_is_seventy_of_a_hundred_requests() {
    let mut kpa = KpaConfig::default().build().unwrap();
    assert_eq!(replicas_of(&mut kpa, &tick(0, 1, 70.0)), 1.0);
    assert_eq!(replicas_of(&mut kpa, &tick(2, 1, 73.0)), 2.0);
}

#[test]
fn a_surge_to_twice_the_capacity_panics_and_follows_the_short_window() {
    let mut kpa = kpa();
    run(&mut kpa, 0..30, 1, 10.0);
    // The stable mean has hardly moved after one tick of 100; the six seconds of the panic
    // window have: (10 + 10 + 100) / 3.
    assert_eq!(replicas_of(&mut kpa, &tick(60, 1, 100.0)), 4.0);
    assert!(words_of(&mut kpa, &tick(62, 4, 100.0)).contains("panic mode"));
}

#[test]
fn in_panic_nothing_is_taken_away_until_a_stable_window_has_passed() {
    let mut kpa = kpa();
    run(&mut kpa, 0..30, 1, 10.0);
    let grown = run(&mut kpa, 30..40, 1, 100.0);
    assert_eq!(grown, 10);
    // The last surge was seen while fewer than five were ready, at 62 s at the latest.
    assert_eq!(run(&mut kpa, 40..60, grown, 10.0), 10);
    assert_eq!(run(&mut kpa, 60..100, grown, 10.0), 1);
}

#[test]
fn it_starts_in_panic_so_that_lost_history_takes_nothing_away() {
    let mut restarted = kpa();
    assert_eq!(run(&mut restarted, 0..31, 8, 10.0), 8);
    // Halved at most in each decision after that.
    assert_eq!(replicas_of(&mut restarted, &tick(62, 8, 10.0)), 4.0);
    // A single replica is no reason to panic.
    assert!(!words_of(&mut kpa(), &tick(0, 1, 10.0)).contains("panic mode"));
}

#[test]
fn panic_after_a_crash_provides_for_the_stable_mean_too() {
    let mut kpa = kpa();
    assert_eq!(run(&mut kpa, 0..40, 10, 100.0), 10);
    run(&mut kpa, 40..43, 10, 20.0);
    // One of ten is left. Twenty requests are twice its target, ninety were usual.
    assert_eq!(replicas_of(&mut kpa, &tick(86, 1, 20.0)), 9.0);
}

#[test]
fn without_requests_for_a_whole_stable_window_it_goes_to_zero() {
    let mut kpa = kpa();
    run(&mut kpa, 0..30, 1, 1.0);
    assert_eq!(run(&mut kpa, 30..59, 1, 0.0), 1);
    assert_eq!(run(&mut kpa, 59..61, 1, 0.0), 0);
    assert_eq!(replicas_of(&mut kpa, &tick(200, 0, 3.0)), 1.0);
}

#[test]
fn growth_is_limited_but_never_below_one_replica_more() {
    let config = KpaConfig { max_scale_up_rate: 1.1, ..KpaConfig::with_concurrency(1.0 / 0.7) };
    assert_eq!(replicas_of(&mut config.build().unwrap(), &tick(0, 2, 9.0)), 3.0);
}

#[test]
fn a_scale_down_delay_keeps_the_largest_number_asked_for() {
    let config = KpaConfig {
        scale_down_delay: secs(30),
        panic_threshold: 9.0,
        ..KpaConfig::with_concurrency(10.0 / 0.7)
    };
    let mut kpa = config.build().unwrap();
    assert_eq!(replicas_of(&mut kpa, &tick(0, 1, 15.0)), 2.0);
    assert_eq!(replicas_of(&mut kpa, &tick(20, 1, 0.0)), 2.0);
    assert_eq!(replicas_of(&mut kpa, &tick(30, 1, 0.0)), 1.0);
}

#[test]
fn a_figure_that_is_no_number_changes_nothing_and_is_not_remembered() {
    let mut kpa = kpa();
    run(&mut kpa, 0..10, 1, 10.0);
    assert_eq!(replicas_of(&mut kpa, &tick(20, 3, f64::NAN)), 3.0);
    assert_eq!(replicas_of(&mut kpa, &tick(22, 1, 10.0)), 1.0);
}

#[test]
fn settings_that_allow_no_change_are_refused() {
    let error = KpaConfig { max_scale_down_rate: 1.0, ..KpaConfig::default() }.build().unwrap_err();
    assert_eq!(error.to_string(), "max_scale_down_rate must be a finite number above 1, got 1");
    assert!(KpaConfig::with_concurrency(0.0).build().is_err());
}
