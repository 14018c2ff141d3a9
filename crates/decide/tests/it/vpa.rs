//! The vertical autoscaler's recommendations and when it acts on them.

use homeostat_core::{Bytes, Fraction, Millicores, Persist, SimDuration, SimTime, Snapshot};
use homeostat_decide::{HistogramBuckets, Observation, Policy, Proposal, Vpa, VpaConfig};

use crate::observations::{observation, secs, words_of};

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 3600;

/// An observation of one replica.
fn one(seconds: u64, cpu_cores: f64, memory_mib: u64) -> Observation {
    let mut obs = observation(seconds, 1, cpu_cores);
    obs.replicas[0].memory = Some(Bytes::from_mib(memory_mib));
    obs
}

/// Kubernetes' settings, but replicas never get old enough for a change inside the range.
fn config() -> VpaConfig {
    VpaConfig { lifetime: secs(1000 * DAY), ..VpaConfig::default() }
}

fn vpa() -> Vpa {
    config().build().unwrap()
}

/// Runs for some minutes at constant use; the last proposal.
fn run(vpa: &mut Vpa, from: u64, minutes: u64, cpu_cores: f64, memory_mib: u64) -> Proposal {
    let times = (0..minutes).map(|minute| from + minute * MINUTE);
    times.map(|time| vpa.propose(&one(time, cpu_cores, memory_mib))).last().unwrap()
}

/// What a use becomes: the end of its bucket and the safety margin.
fn with_margin(buckets: HistogramBuckets, usage: f64) -> f64 {
    buckets.representative(buckets.find(usage)) * 1.15
}

#[test]
fn nine_samples_two_minutes_apart_give_little_confidence() {
    let mut vpa = vpa();
    for sample in 0..9 {
        vpa.propose(&one(sample * 2 * MINUTE, 1.0, 100));
    }
    assert_eq!(vpa.confidence(), 0.00625);
}

#[test]
fn one_sample_gives_none_and_changes_nothing() {
    let mut vpa = vpa();
    let obs = one(0, 9.0, 400);
    let proposal = vpa.propose(&obs);
    assert_eq!((vpa.confidence(), proposal.cpu_cores), (0.0, 1.0));
    assert!(words_of(&mut vpa, &obs).contains("Mi up are kept"), "no upper end yet");
}

#[test]
fn a_starved_replica_gets_its_target_within_minutes() {
    let proposal = run(&mut vpa(), 0, 10, 3.0, 100);
    assert_eq!(proposal.cpu_cores, with_margin(HistogramBuckets::cpu(), 3.0));
    assert_eq!(proposal.replicas, 1.0);
}

#[test]
fn a_wasteful_request_is_cut_only_with_history() {
    let mut vpa = vpa();
    assert_eq!(run(&mut vpa, 0, 120, 0.3, 250).cpu_cores, 1.0);
    // After a day the upper bound is twice the percentile with its margin: 0.7 cores.
    let proposal = run(&mut vpa, 120 * MINUTE, 24 * 60, 0.3, 250);
    assert_eq!(proposal.cpu_cores, with_margin(HistogramBuckets::cpu(), 0.3));
}

#[test]
fn inside_the_range_nothing_is_worth_a_restart_until_the_lifetime_is_over() {
    let mut vpa = VpaConfig::default().build().unwrap();
    let young = |seconds| {
        let mut obs = one(seconds, 0.6, 400);
        obs.replicas[0].started = obs.now;
        obs
    };
    let mut last = None;
    for minute in 0..600 {
        last = Some(vpa.propose(&young(minute * MINUTE)));
    }
    let reason = last.unwrap().reasons.last().unwrap().to_string();
    assert_eq!(reason, "held: the request is close enough, a change is not worth a restart");
    // The same use by a replica of more than twelve hours: the target is 30 % away.
    let proposal = vpa.propose(&one(600 * MINUTE, 0.6, 400));
    assert_eq!(proposal.cpu_cores, with_margin(HistogramBuckets::cpu(), 0.6));
}

#[test]
fn an_old_replica_is_left_alone_while_the_target_is_near() {
    let mut vpa = VpaConfig::default().build().unwrap();
    let near = |seconds| {
        let mut obs = one(seconds, 0.6, 400);
        let cores = with_margin(HistogramBuckets::cpu(), 0.6) * 1.04;
        let bytes = with_margin(HistogramBuckets::memory(), (400u64 << 20) as f64) * 1.04;
        obs.allocation.cpu = Millicores::from_cores(cores).unwrap();
        obs.allocation.memory = Bytes::new(bytes as u64);
        obs
    };
    for minute in 0..10 {
        let words = words_of(&mut vpa, &near(minute * MINUTE));
        assert!(
            words.ends_with("held: the request is close enough, a change is not worth a restart"),
            "{words}"
        );
    }
}

#[test]
fn a_request_below_the_minimum_is_raised_at_once() {
    let mut obs = one(0, 0.001, 300);
    obs.allocation.cpu = Millicores::new(10);
    assert_eq!(vpa().propose(&obs).cpu_cores, 0.025);
}

#[test]
fn the_minimum_is_25_millicores_and_250_mebibytes_split_over_containers() {
    let check = |containers, cores, bytes: u64| {
        let mut vpa = VpaConfig { containers, ..config() }.build().unwrap();
        let proposal = run(&mut vpa, 0, 3 * 24 * 60, 0.001, 1);
        assert_eq!((proposal.cpu_cores, proposal.memory_bytes), (cores, bytes as f64));
    };
    check(1, 0.025, 250 << 20);
    check(2, 0.0125, 125 << 20);
}

#[test]
fn a_kill_asks_for_a_fifth_more_and_at_least_100_mebibytes() {
    let check = |memory_mib, peak_mib, need_mib: f64| {
        let mut vpa = vpa();
        run(&mut vpa, 0, 3, 0.6, peak_mib);
        let mut obs = one(10 * MINUTE, 0.6, 1);
        obs.allocation.memory = Bytes::from_mib(memory_mib);
        obs.oom_kills = 1;
        let need = need_mib * f64::from(1 << 20);
        let expect = with_margin(HistogramBuckets::memory(), need);
        assert_eq!(vpa.propose(&obs).memory_bytes, expect);
    };
    check(300, 299, 400.0);
    check(1000, 999, 1200.0);
    // What was seen counts if it is more than what was allowed.
    check(300, 350, 450.0);
}

#[test]
fn a_kill_is_worth_a_change_for_as_long_as_it_is_remembered() {
    let answers = |oom_memory: SimDuration| {
        let mut vpa = VpaConfig { oom_memory, ..config() }.build().unwrap();
        // One of three is killed: too little to leave the range.
        let look = |vpa: &mut Vpa, seconds: u64, oom_kills: u32| {
            let mut obs = observation(seconds, 3, 0.6);
            obs.allocation.memory = Bytes::from_mib(310);
            for replica in &mut obs.replicas {
                replica.memory = Some(Bytes::from_mib(240));
            }
            obs.oom_kills = oom_kills;
            vpa.propose(&obs).memory_bytes > obs.allocation.memory.bytes() as f64
        };
        (0..60).for_each(|minute| assert!(!look(&mut vpa, minute * MINUTE, 0), "{minute}"));
        let mut answers = vec![look(&mut vpa, 60 * MINUTE, 1)];
        // It outlives a restart.
        let mut snapshot = Snapshot::default();
        vpa.save("vpa", &mut snapshot);
        vpa.load("vpa", &snapshot).unwrap();
        answers.extend([61, 69, 71].map(|minute| look(&mut vpa, minute * MINUTE, 0)));
        answers
    };
    assert_eq!(answers(SimDuration::ZERO), [true, false, false, false]);
    assert_eq!(answers(secs(600)), [true, true, true, false]);
}

#[test]
fn a_kill_is_laid_to_the_replica_that_used_the_most() {
    let mut vpa = vpa();
    let mut obs = observation(0, 2, 0.6);
    obs.replicas[0].memory = Some(Bytes::from_mib(300));
    obs.replicas[1].memory = Some(Bytes::from_mib(500));
    vpa.propose(&obs);
    obs.now += secs(15);
    obs.oom_kills = 1;
    vpa.propose(&obs);
    let weights: Vec<_> = vpa.checkpoint().memory.histogram.weights.into_keys().collect();
    let bucket = |mib: f64| HistogramBuckets::memory().find(mib * f64::from(1 << 20)) as i64;
    assert_eq!(weights, [bucket(300.0), bucket(614.4)]);
}

#[test]
fn a_kill_before_any_figure_counts_too() {
    let mut vpa = vpa();
    let mut obs = observation(0, 0, 0.0);
    obs.oom_kills = 1;
    let need = f64::from(1 << 20) * 614.4;
    let expect = with_margin(HistogramBuckets::memory(), need);
    assert_eq!(vpa.propose(&obs).memory_bytes, expect);
}

#[test]
fn cpu_samples_weigh_as_much_as_the_request_and_a_tenth_at_least() {
    let mut vpa = vpa();
    for (minute, millicores, cpu_cores) in [(0, 2000, 3.0), (1, 50, 0.2)] {
        let mut obs = one(minute * MINUTE, cpu_cores, 300);
        obs.allocation.cpu = Millicores::new(millicores);
        vpa.propose(&obs);
    }
    let weights: Vec<_> = vpa.checkpoint().cpu.histogram.weights.into_values().collect();
    assert_eq!(weights, [500, 10_000]);
}

#[test]
fn of_a_memory_window_only_the_peak_counts() {
    let mut vpa = vpa();
    // Ten hours of little and a single peak, in each of two windows: the peaks are left.
    for window in 0..2 {
        let start = window * DAY;
        run(&mut vpa, start, 600, 0.6, 300);
        vpa.propose(&one(start + 700 * MINUTE, 0.6, 900));
    }
    let memory = &vpa.checkpoint().memory.histogram;
    assert_eq!(memory.weights.len(), 1);
    let peak = HistogramBuckets::memory().find((900u64 << 20) as f64);
    assert!(memory.weights.contains_key(&(peak as i64)));
}

#[test]
fn the_scaled_clock_forgets_in_minutes_what_the_real_one_keeps_for_days() {
    // Ten minutes of three cores, then twenty of a tenth.
    let target = |config: VpaConfig| {
        let mut vpa = config.build().unwrap();
        for minute in 0..10 {
            let mut obs = one(minute * MINUTE, 3.0, 300);
            obs.allocation.cpu = Millicores::new(3500);
            vpa.propose(&obs);
        }
        let mut last = Proposal::keep(&crate::observations::allocation(1, 3500, 512));
        for minute in 10..30 {
            let mut obs = one(minute * MINUTE, 0.1, 300);
            obs.allocation.cpu = Millicores::from_cores(last.cpu_cores).unwrap();
            last = vpa.propose(&obs);
        }
        last.cpu_cores
    };
    assert_eq!(target(config()), 3.5);
    let expect = with_margin(HistogramBuckets::cpu(), 0.1);
    assert!(target(VpaConfig::scaled(1440.0).unwrap()) < 2.0 * expect);
}

#[test]
fn a_target_unseen_for_eight_windows_starts_anew() {
    let mut vpa = vpa();
    run(&mut vpa, 0, 24 * 60, 3.0, 300);
    assert!(vpa.confidence() > 0.9);
    vpa.propose(&one(9 * DAY, 0.6, 300));
    assert_eq!(vpa.confidence(), 0.0);
}

#[test]
fn a_resource_without_figures_is_left_alone() {
    let mut vpa = vpa();
    let mut obs = one(0, 3.0, 1);
    for minute in 0..10 {
        obs.now = SimTime::ZERO + secs(minute * MINUTE);
        obs.replicas[0].memory = None;
        let proposal = vpa.propose(&obs);
        assert_eq!(proposal.memory_bytes, obs.allocation.memory.bytes() as f64);
    }
    let mut blind = self::vpa();
    obs.replicas.clear();
    assert_eq!(words_of(&mut blind, &obs), "held: no usable figure of CPU or memory use");
}

#[test]
fn a_checkpoint_carries_the_recommendation_to_another_autoscaler() {
    let mut first = vpa();
    for minute in 0..500 {
        first.propose(&one(minute * MINUTE, 0.2 + (minute % 7) as f64 * 0.3, 300));
    }
    let mut second = vpa();
    second.restore_checkpoint(&first.checkpoint()).unwrap();
    assert_eq!(second.confidence(), first.confidence());
    let obs = one(501 * MINUTE, 5.0, 300);
    assert_eq!(second.propose(&obs).cpu_cores, first.propose(&obs).cpu_cores);
    let mut broken = first.checkpoint();
    broken.memory.histogram.weights.insert(-1, 1);
    let before = second.clone();
    assert!(second.restore_checkpoint(&broken).is_err());
    assert_eq!(second, before);
}

#[test]
fn settings_that_describe_no_range_are_refused() {
    let check = |config: VpaConfig, expect: &str| {
        assert_eq!(config.build().unwrap_err().to_string(), expect);
    };
    check(
        VpaConfig { lower_percentile: Fraction::from_percent(99), ..VpaConfig::default() },
        "percentiles must be lower, target, upper in rising order up to 100%, got 99%, 90%, 95%",
    );
    check(
        VpaConfig { half_life: secs(0), ..VpaConfig::default() },
        "half-life must be above 0, got 0ns",
    );
    assert!(VpaConfig::scaled(0.0).is_err());
    assert!(VpaConfig::scaled(f64::NAN).is_err());
}
