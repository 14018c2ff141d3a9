//! Size and number in one decision.

use homeostat_core::{Bytes, Fraction, Millicores, Persist, SimDuration, Slo, Snapshot};
use homeostat_decide::{
    BurstResponseConfig, Joint, JointConfig, Observation, Policy, SloKind, TargetUtilizationConfig,
    VpaConfig,
};

use crate::observations::{millis, observation, replicas_of, words_of};

fn joint() -> Joint {
    JointConfig::default().build().unwrap()
}

/// The SLO is 640 ms here.
fn at_latency(seconds: u64, latency_millis: u64) -> Observation {
    Observation { latency: Some(millis(latency_millis)), ..observation(seconds, 10, 0.7) }
}

#[test]
fn the_number_is_the_horizontal_autoscalers_at_the_level_of_the_objective() {
    // 75 % of use against 70 % is inside the tolerance, 90 % is not.
    assert_eq!(replicas_of(&mut joint(), &observation(0, 10, 0.75)), 10.0);
    assert_eq!(replicas_of(&mut joint(), &observation(0, 10, 0.9)), 13.0);
    let words = words_of(&mut joint(), &observation(0, 10, 0.9));
    assert!(words.contains("the target is a CPU utilisation of 71%; "), "{words}");
    assert!(
        words.contains("CPU utilisation 90% against a target of 71% asks for 13 replicas"),
        "{words}"
    );
}

#[test]
fn replicas_no_fuller_than_the_level_that_stay_slow_cut_it_once_in_a_while() {
    let mut joint = joint();
    let mut level = |seconds, latency| {
        joint.propose(&at_latency(seconds, latency));
        joint.target_utilization()
    };
    // A queue that is being worked off is slow as well: not at once.
    for seconds in [0, 15, 30, 45] {
        assert_eq!(level(seconds, 600), Fraction::from_percent(70));
    }
    let once = Fraction::from_ratio(0.7 * 0.85).unwrap();
    assert_eq!(level(60, 600), once);
    // New replicas take their time: the next observation must not cut again.
    assert_eq!(level(75, 2000), once);
    // What was fast in between starts again.
    assert_eq!(level(90, 500), once);
    assert_eq!(level(120, 2000), once);
    for window in 9..100 {
        assert!(level(window * 15, 5000) >= Fraction::from_percent(30));
    }
}

#[test]
fn replicas_that_are_too_full_are_slow_for_that_reason_and_the_level_stays() {
    let mut joint = joint();
    for window in 0..20 {
        joint.propose(&Observation {
            latency: Some(millis(2000)),
            ..observation(window * 15, 10, 0.95)
        });
    }
    assert_eq!(joint.target_utilization(), Fraction::from_percent(70));
}

#[test]
fn replicas_that_are_slow_get_either_more_of_them_or_a_lower_level() {
    // At every use: what the number finds near enough to its target is no fuller than allowed.
    for used in 700..=850 {
        let used = f64::from(used) / 1e3;
        let mut joint = joint();
        let slow = |window: u64| Observation {
            latency: Some(millis(2000)),
            ..observation(window * 15, 10, used)
        };
        let last = (0..=4).map(|window| replicas_of(&mut joint, &slow(window))).last();
        assert!(
            joint.target_utilization() < Fraction::from_percent(70) || last > Some(10.0),
            "{used}"
        );
    }
}

/// The level after ten replicas that were fast became eight that are slow, and two minutes later
/// do as much work as given.
fn level_after_a_step_down(cores_before: f64, cores_after: f64) -> Fraction {
    let mut joint = joint();
    let mut observe = |seconds, replicas: u32, cores: f64, latency| {
        let used = cores / f64::from(replicas);
        let latency = Some(millis(latency));
        joint.propose(&Observation { latency, ..observation(seconds, replicas, used) });
    };
    observe(0, 10, cores_before, 500);
    observe(15, 8, cores_before, 800);
    observe(30, 10, cores_before, 500);
    observe(135, 10, cores_after, 500);
    joint.target_utilization()
}

#[test]
fn replicas_that_are_away_for_a_moment_are_no_step_down() {
    let mut joint = joint();
    for (seconds, serving, latency) in [(0, 10, 500), (15, 8, 800), (30, 10, 500), (150, 10, 500)] {
        let used = 4.0 / serving as f64;
        let mut obs =
            Observation { latency: Some(millis(latency)), ..observation(seconds, 10, used) };
        for starting in &mut obs.replicas[serving..] {
            (starting.is_ready, starting.cpu_cores) = (false, None);
        }
        joint.propose(&obs);
    }
    assert_eq!(joint.target_utilization(), Fraction::from_percent(70));
}

#[test]
fn a_step_down_that_violates_the_slo_lowers_the_target_below_the_utilisation_of_that_moment() {
    // Four cores of eight.
    assert_eq!(level_after_a_step_down(4.0, 4.0), Fraction::from_ratio(0.5 * 0.85).unwrap());
    // A burst came, which use shows later: the step is not to blame.
    assert_eq!(level_after_a_step_down(4.0, 6.0), Fraction::from_percent(70));
    // Fuller than they may be, they are slow for that reason.
    assert_eq!(level_after_a_step_down(7.0, 7.0), Fraction::from_percent(70));
}

#[test]
fn latency_that_goes_up_and_down_does_not_get_better() {
    let mut joint = joint();
    for window in 0..20 {
        joint.propose(&at_latency(window * 15, if window % 2 == 0 { 960 } else { 900 }));
    }
    assert!(joint.target_utilization() < Fraction::from_percent(70));
}

#[test]
fn what_was_learnt_of_one_objective_says_nothing_of_another() {
    let mut joint = joint();
    let slow = |window: u64| at_latency(window * 15, 2000);
    (0..20).for_each(|window| drop(joint.propose(&slow(window))));
    let learnt = joint.target_utilization();
    assert!(learnt < Fraction::from_percent(65));
    let mut memory = Snapshot::default();
    joint.save("joint", &mut memory);

    let mut obs = slow(20);
    obs.slo = Slo::try_new(Fraction::from_percent(99), millis(4000)).unwrap();
    joint.propose(&obs);
    assert!(joint.target_utilization() >= Fraction::from_percent(70));

    let restored = |slo| {
        let mut joint = JointConfig { slo, ..JointConfig::default() }.build().unwrap();
        joint.load("joint", &memory).unwrap();
        joint.target_utilization()
    };
    assert_eq!(restored(SloKind::Latency), learnt);
    // Nothing would ever move it again.
    assert_eq!(restored(SloKind::Throughput), Fraction::from_percent(70));
    assert_eq!(restored(SloKind::None), Fraction::from_percent(70));
}

#[test]
fn a_database_that_is_slow_for_a_while_proves_nothing() {
    let mut joint = joint();
    let minutes = |joint: &mut Joint, minutes: std::ops::Range<u64>, latency: u64| {
        for window in minutes.start * 4..minutes.end * 4 {
            let used = joint.target_utilization().ratio().min(0.7);
            let latency = Some(millis(latency));
            joint.propose(&Observation { latency, ..observation(window * 15, 10, used) });
        }
        joint.target_utilization().percent()
    };
    assert_eq!(minutes(&mut joint, 0..20, 2000), 30.0);
    assert!(minutes(&mut joint, 20..34, 100) >= 70.0);
}

#[test]
fn a_level_that_is_cut_twice_is_not_tried_again_soon() {
    let mut joint = joint();
    let mut seconds = 0;
    // As full as the level allows, for so many minutes.
    let mut after = |minutes: u64, latency| {
        for _ in 0..minutes * 4 {
            let used = joint.target_utilization().ratio();
            let latency = Some(millis(latency));
            joint.propose(&Observation { latency, ..observation(seconds, 10, used) });
            seconds += 15;
        }
        joint.target_utilization().percent()
    };
    let start = after(0, 0);
    let once = after(2, 600);
    assert!((once - start * 0.85).abs() < 0.1, "{once}");
    let again = after(4, 300);
    assert!((again - start).abs() < 2.0, "{again}");
    let twice = after(2, 600);
    assert!((twice - again * 0.85).abs() < 0.1, "{twice}");
    // A hundredth in half an hour.
    let later = after(60, 300);
    assert!((later - twice - 2.0).abs() < 0.2, "{later} after {twice}");
}

#[test]
fn room_under_the_threshold_lets_the_level_rise_slowly_to_its_end() {
    let mut joint = joint();
    let mut after = |minutes: u64, cores: f64| {
        for window in 0..minutes * 4 {
            joint.propose(&observation(window * 15, 10, cores));
        }
        joint.target_utilization().percent()
    };
    // A hundredth in twenty seconds.
    assert!((after(1, 0.7) - 73.0).abs() < 0.01);
    // A quiet night proves nothing.
    assert!((after(30, 0.2) - 73.0).abs() < 0.01);
    assert_eq!(after(30, 0.9), 90.0);
}

#[test]
fn looks_between_two_do_not_make_the_level_rise_faster() {
    let mut joint = joint();
    for seconds in (0..=60).step_by(5) {
        joint.propose(&observation(seconds, 10, 0.7));
    }
    // Fifteen seconds of the first observation, and a minute.
    assert!((joint.target_utilization().percent() - 73.75).abs() < 0.01);
}

/// Replicas after an SLO that was met at 600 ms has become violated.
fn after_a_break(used: f64, serving: usize, latency_millis: u64) -> f64 {
    let mut joint = joint();
    joint.propose(&Observation { latency: Some(millis(600)), ..observation(0, 10, used) });
    let mut violated = observation(15, 10, used);
    violated.latency = Some(millis(latency_millis));
    for starting in &mut violated.replicas[serving..] {
        (starting.is_ready, starting.cpu_cores) = (false, None);
    }
    replicas_of(&mut joint, &violated)
}

#[test]
fn a_violated_slo_is_answered_before_utilisation_shows_it() {
    // As much as latency is over 640 ms, and no more than double.
    assert_eq!(after_a_break(0.6, 10, 800), 13.0);
    assert_eq!(after_a_break(0.6, 10, 9000), 20.0);
    // Some are on their way already.
    assert_eq!(after_a_break(0.6, 7, 1280), 14.0);
    assert_eq!(after_a_break(0.6, 7, 900), 10.0);
    // No request waits for replicas that are almost idle.
    assert_eq!(after_a_break(0.3, 10, 9000), 10.0);
}

#[test]
fn a_break_asks_for_as_long_as_it_gets_worse_and_at_most_for_double() {
    let mut joint = joint();
    let mut replicas = |seconds, current, latency| {
        let obs =
            Observation { latency: Some(millis(latency)), ..observation(seconds, current, 0.6) };
        replicas_of(&mut joint, &obs)
    };
    // Where the SLO is violated from the beginning, the number of replicas at which it became so is unknown.
    assert_eq!(replicas(0, 4, 2000), 4.0);
    assert_eq!(replicas(15, 4, 600), 4.0);
    assert_eq!(replicas(30, 4, 700), 5.0);
    // What was not given is asked for again.
    assert_eq!(replicas(45, 4, 700), 5.0);
    assert_eq!(replicas(60, 5, 900), 6.0);
    // What has come since then is no reason to double again.
    assert_eq!(replicas(75, 6, 9000), 8.0);
    // Latency over some minutes stays bad for as long.
    assert_eq!(replicas(90, 8, 9000), 8.0);
    assert_eq!(replicas(105, 8, 600), 8.0);
    // That was one break; this is the next. Two that have just come did not make this latency.
    assert_eq!(replicas(120, 10, 900), 12.0);
    let violated = Observation { latency: Some(millis(1000)), ..observation(135, 12, 0.6) };
    let words = words_of(&mut joint, &violated);
    let expect = "the SLO is violated and latency asks for 13 replicas at once";
    assert!(words.contains(expect), "{words}");
}

#[test]
fn use_of_the_time_before_a_burst_does_not_use_the_answer_up() {
    let mut joint = joint();
    let mut replicas = |seconds, used, latency| {
        let obs = Observation { latency: Some(millis(latency)), ..observation(seconds, 4, used) };
        replicas_of(&mut joint, &obs)
    };
    assert_eq!(replicas(0, 0.2, 600), 4.0);
    // Latency is at its end, and use is still that of a quiet minute.
    assert_eq!(replicas(15, 0.2, 5000), 4.0);
    assert_eq!(replicas(30, 0.5, 5000), 8.0);
}

#[test]
fn nothing_goes_down_while_the_slo_is_violated() {
    let mut joint = joint();
    // Replicas wait for somebody else: they have little to do, and are slow.
    let slow =
        |seconds| Observation { latency: Some(millis(2000)), ..observation(seconds, 10, 0.2) };
    for window in 0..40 {
        let proposal = joint.propose(&slow(window * 15));
        assert_eq!((proposal.replicas, proposal.cpu_cores), (10.0, 1.0));
        assert!(proposal.memory_bytes >= slow(0).allocation.memory.bytes() as f64);
    }
    let words = words_of(&mut joint, &slow(600));
    assert!(words.ends_with("held: nothing goes down while the SLO is violated"), "{words}");
    // Two minutes later the SLO is met, and few are needed.
    let met = (615..735).step_by(15).map(|seconds| observation(seconds, 10, 0.2));
    assert!(met.map(|obs| replicas_of(&mut joint, &obs)).last() < Some(10.0));
}

#[test]
fn a_throughput_that_falls_because_fewer_come_changes_nothing() {
    let config = JointConfig { slo: SloKind::Throughput, ..JointConfig::default() };
    let mut joint = config.build().unwrap();
    // Half of what is wanted, as a latency twice as long as it may be.
    let at_night =
        |seconds| Observation { latency: Some(millis(1280)), ..observation(seconds, 10, 0.2) };
    let replicas: Vec<f64> =
        (0..20).map(|window| replicas_of(&mut joint, &at_night(window * 15))).collect();
    assert_eq!(joint.target_utilization(), Fraction::from_percent(70));
    assert_eq!((replicas[0], replicas[19]), (10.0, 3.0));
    // Replicas that are too full are another thing.
    let full = Observation { latency: Some(millis(1280)), ..observation(400, 3, 1.0) };
    assert!(replicas_of(&mut joint, &full) > 3.0);
}

#[test]
fn without_a_figure_of_use_nobody_is_called_too_full() {
    let mut joint = joint();
    for window in 0..20 {
        let mut silent = at_latency(window * 15, 2000);
        for replica in &mut silent.replicas {
            (replica.is_ready, replica.cpu_cores) = (false, None);
        }
        assert_eq!(replicas_of(&mut joint, &silent), 10.0);
    }
    assert_eq!(joint.target_utilization(), Fraction::from_percent(70));
}

#[test]
fn strain_that_gets_better_or_was_not_seen_for_a_while_begins_anew() {
    let mut joint = joint();
    let mut level = |seconds, latency| {
        joint.propose(&at_latency(seconds, latency));
        joint.target_utilization()
    };
    let start = Fraction::from_percent(70);
    // Five minutes of a mean in which a burst fades.
    for window in 0..20 {
        assert_eq!(level(window * 15, 3000 - window * 100), start);
    }
    // Silence in between.
    assert_eq!(level(1000, 2000), start);
    assert_eq!(level(1300, 2000), start);
}

#[test]
fn a_level_that_was_set_is_not_learnt() {
    let config = JointConfig { fixed_target_utilization: Some(50), ..JointConfig::default() };
    let mut joint = config.build().unwrap();
    for latency in [100, 5000] {
        let words = words_of(&mut joint, &at_latency(0, latency));
        assert!(words.contains("; the target is a CPU utilisation of 50%; "), "{words}");
    }
}

#[test]
fn without_an_objective_the_level_stays_and_nobody_speaks_of_requests() {
    let config = JointConfig { slo: SloKind::None, ..JointConfig::default() };
    let mut joint = config.build().unwrap();
    let silent = Observation { latency: None, ..observation(0, 10, 0.7) };
    let words = words_of(&mut joint, &silent);
    assert!(words.starts_with("no SLO is set: usage alone decides; "), "{words}");
    assert_eq!(joint.target_utilization(), Fraction::from_percent(70));
}

/// An hour at constant use, on a clock on which a day is a minute.
fn after_an_hour(min: u32, max: u32, obs: impl Fn(u64) -> Observation) -> (f64, f64) {
    let config = JointConfig {
        min_replicas: min,
        max_replicas: max,
        vpa: VpaConfig::scaled(1440.0).unwrap(),
        fixed_target_utilization: Some(70),
        ..JointConfig::default()
    };
    let mut joint = config.build().unwrap();
    let last = (0..240).map(|window| joint.propose(&obs(window * 15))).last().unwrap();
    (last.replicas, last.cpu_cores)
}

#[test]
fn the_size_stays_while_the_number_can_follow_the_load() {
    let (_, cores) = after_an_hour(1, 20, |seconds| observation(seconds, 4, 0.1));
    assert_eq!(cores, 1.0);
}

#[test]
fn replicas_without_a_request_get_one_by_what_they_use() {
    let mut joint = joint();
    let mut obs = observation(0, 4, 0.21);
    obs.allocation.cpu = Millicores::ZERO;
    let proposal = joint.propose(&obs);
    assert!((0.29..0.33).contains(&proposal.cpu_cores), "{proposal:?}");
    // How many of that size there should be is asked when they have it.
    assert_eq!(proposal.replicas, 4.0);
    let words = proposal.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    assert!(
        words.contains("is relative to the request, and some replicas request nothing"),
        "{words}"
    );
}

#[test]
fn a_kill_for_want_of_memory_makes_no_replica_smaller() {
    let mut joint = joint();
    // All but one use little, and the lifetime after which sizes follow use is not over.
    let observed = |seconds: u64, oom_kills: u32| {
        let mut obs = Observation { oom_kills, ..observation(seconds, 12, 0.5) };
        obs.allocation.memory = Bytes::from_mib(1024);
        for replica in &mut obs.replicas {
            replica.started = obs.now;
            replica.memory = Some(Bytes::from_mib(300));
        }
        obs
    };
    for window in 0..480 {
        joint.propose(&observed(window * 15, 0));
    }
    let memory = joint.propose(&observed(7200, 1)).memory_bytes;
    assert!(memory >= Bytes::from_mib(1024).bytes() as f64, "{memory}");
}

#[test]
fn replicas_that_are_not_resized_yet_are_as_full_as_they_are() {
    let level = |own_request: Option<Millicores>| {
        let mut joint = joint();
        for window in 0..8 {
            let mut obs = at_latency(window * 15, 2000);
            for replica in &mut obs.replicas {
                replica.cpu_request = own_request;
            }
            joint.propose(&obs);
        }
        joint.target_utilization()
    };
    // 0.7 cores of one are what the level allows, of 0.7 they are all that there is.
    assert!(level(None) < Fraction::from_percent(70));
    assert_eq!(level(Some(Millicores::new(700))), Fraction::from_percent(70));
}

#[test]
fn the_size_says_why_it_stays() {
    let words = words_of(&mut joint(), &observation(0, 10, 0.7));
    let expect = "the size stays at 1000m CPU each: the number of replicas follows the load";
    assert!(words.contains(expect), "{words}");
    // One replica is the fewest there may be, and one observation says little. A tenth of a core, up to
    // the edge of its bucket, at 70 %.
    let words = words_of(&mut joint(), &observation(0, 1, 0.1));
    let expect =
        "the size stays at 1000m CPU each: 158m CPU would suffice, but the history is short";
    assert!(words.contains(expect), "{words}");
}

#[test]
fn at_the_fewest_replicas_the_size_shrinks_to_what_is_used() {
    let (replicas, cores) = after_an_hour(2, 20, |seconds| observation(seconds, 2, 0.1));
    assert_eq!(replicas, 2.0);
    // A tenth of a core, at most 70 % full, and the width of a bucket.
    assert!((0.14..0.17).contains(&cores), "{cores}");
}

#[test]
fn at_the_maximum_of_replicas_a_violated_slo_makes_them_larger() {
    let violated =
        |seconds| Observation { latency: Some(millis(2000)), ..observation(seconds, 4, 1.5) };
    let (replicas, cores) = after_an_hour(1, 4, violated);
    assert_eq!(replicas, 4.0);
    assert!((2.1..2.4).contains(&cores), "{cores}");
    let met = |seconds| observation(seconds, 4, 1.5);
    assert_eq!(after_an_hour(1, 4, met).1, 1.0);
}

#[test]
fn without_an_objective_use_makes_the_most_replicas_larger() {
    let config = JointConfig { slo: SloKind::None, max_replicas: 4, ..JointConfig::default() };
    let proposal = config.build().unwrap().propose(&observation(0, 4, 1.5));
    assert!((2.1..2.4).contains(&proposal.cpu_cores), "{}", proposal.cpu_cores);
}

#[test]
fn a_larger_size_takes_no_replicas_away_before_it_is_there() {
    let mut config = JointConfig { slo: SloKind::None, max_replicas: 6, ..JointConfig::default() };
    config.behavior.down.stabilization = SimDuration::ZERO;
    // So little is used that the least size of the vertical autoscaler is far more.
    let at_size = |request: u64| {
        let mut obs = observation(0, 6, 0.009);
        obs.allocation.cpu = Millicores::new(request);
        config.clone().build().unwrap().propose(&obs)
    };
    let proposal = at_size(10);
    assert!(proposal.cpu_cores > 0.02, "{proposal:?}");
    assert_eq!(proposal.replicas, 6.0);
    assert!(at_size(40).replicas < 6.0);
}

#[test]
fn a_peak_that_has_just_begun_is_not_sized_by_a_quiet_past() {
    // An hour on a clock on which a day is a minute, then an observation of a peak.
    let used = |seconds| if seconds < 3500 { 0.1 } else { 0.6 };
    let (_, cores) = after_an_hour(2, 20, |seconds| observation(seconds, 2, used(seconds)));
    assert!(cores >= 0.6 / 0.7, "{cores}");
}

#[test]
fn a_smaller_size_does_not_call_for_more_replicas() {
    // The two autoscalers by themselves fight over this one: the request shrinks, so the use
    // seems larger, so the number grows.
    let shrunk = |cores: f64| {
        move |seconds| {
            let mut obs = observation(seconds, 2, 0.1);
            obs.allocation.cpu = homeostat_core::Millicores::from_cores(cores).unwrap();
            obs
        }
    };
    let (_, size) = after_an_hour(2, 20, shrunk(1.0));
    let (replicas, again) = after_an_hour(2, 20, shrunk(size));
    assert_eq!(replicas, 2.0);
    assert!((again - size).abs() < 1e-3, "{size}, then {again}");
}

#[test]
fn settings_that_make_no_sense_are_refused_by_name() {
    let check = |target_utilization: TargetUtilizationConfig, name: &str| {
        let refused =
            JointConfig { target_utilization, ..JointConfig::default() }.build().unwrap_err();
        assert!(refused.to_string().contains(name), "{refused}");
    };
    let default = TargetUtilizationConfig::default();
    check(
        TargetUtilizationConfig { least: Fraction::from_percent(80), ..default },
        "target_utilization",
    );
    check(
        TargetUtilizationConfig { comfortable: Fraction::from_percent(95), ..default },
        "comfortable",
    );
    check(TargetUtilizationConfig { cut: Fraction::ONE, ..default }, "cut");
    check(TargetUtilizationConfig { rise: SimDuration::ZERO, ..default }, "rise");
    check(TargetUtilizationConfig { rise_again: SimDuration::ZERO, ..default }, "rise_again");
    let burst_response = BurstResponseConfig { most: 0.5, ..BurstResponseConfig::default() };
    let refused = JointConfig { burst_response, ..JointConfig::default() }.build().unwrap_err();
    assert!(refused.to_string().contains("burst_response.most"), "{refused}");
    assert!(
        JointConfig { min_replicas: 5, max_replicas: 2, ..JointConfig::default() }.build().is_err()
    );
}
