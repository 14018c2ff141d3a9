//! The horizontal autoscaler's behaviour over time, and its fight with the vertical one.

use homeostat_core::{Millicores, Persist, SimDuration, Snapshot};
use homeostat_decide::{
    Allocation, Hpa, HpaConfig, HpaMetric, HpaVpaConfig, Observation, Policy, ScalingBehavior,
    ScalingPolicy, ScalingStep, SelectPolicy, VpaConfig,
};

use crate::observations::{allocation, at, observation, replica, replicas_of, secs, words_of};

fn hpa(target_percent: u32) -> Hpa {
    let metrics = vec![HpaMetric::CpuUtilization { target_percent }];
    HpaConfig { metrics, ..HpaConfig::default() }.build().unwrap()
}

fn with_behavior(change: impl FnOnce(&mut ScalingBehavior)) -> Hpa {
    let mut config = HpaConfig {
        metrics: vec![HpaMetric::CpuUtilization { target_percent: 50 }],
        ..HpaConfig::default()
    };
    change(&mut config.behavior);
    config.build().unwrap()
}

#[test]
fn five_replicas_at_75_percent_against_50_become_eight() {
    let obs = observation(0, 5, 0.75);
    assert_eq!(replicas_of(&mut hpa(50), &obs), 8.0);
    let words = words_of(&mut hpa(50), &obs);
    assert_eq!(words, "CPU utilisation 75% against a target of 50% asks for 8 replicas");
}

#[test]
fn only_the_number_of_replicas_changes() {
    let obs = observation(0, 5, 0.75);
    let proposal = hpa(50).propose(&obs);
    assert_eq!((proposal.cpu_cores, proposal.memory_bytes), (1.0, (512u64 << 20) as f64));
}

#[test]
fn utilisation_is_relative_to_the_request() {
    let mut obs = observation(0, 5, 0.75);
    obs.allocation.cpu = Millicores::new(1500);
    assert_eq!(replicas_of(&mut hpa(50), &obs), 5.0);
}

#[test]
fn of_several_metrics_the_one_that_asks_for_most_wins() {
    let metrics = vec![
        HpaMetric::CpuUtilization { target_percent: 50 },
        HpaMetric::Concurrency { target: 2.0 },
        HpaMetric::Arrivals { target: 5.0 },
        HpaMetric::MemoryUtilization { target_percent: 50 },
    ];
    let mut hpa = HpaConfig { metrics, ..HpaConfig::default() }.build().unwrap();
    let obs = Observation { concurrency: 12.0, ..observation(0, 4, 0.5) };
    assert_eq!(replicas_of(&mut hpa, &obs), 6.0);
}

#[test]
fn a_missing_metric_stops_a_scale_down_but_not_a_scale_up() {
    let metrics = vec![
        HpaMetric::CpuUtilization { target_percent: 50 },
        HpaMetric::Concurrency { target: 1.0 },
    ];
    // Without a stabilisation window only the metrics count.
    let mut behavior = ScalingBehavior::default();
    behavior.down.stabilization = SimDuration::ZERO;
    let config = HpaConfig { metrics, behavior, ..HpaConfig::default() };
    let check = |cpu_cores, expect| {
        let mut hpa = config.clone().build().unwrap();
        hpa.propose(&Observation { concurrency: 4.0, ..observation(0, 4, 0.5) });
        let obs = Observation { concurrency: f64::NAN, ..observation(400, 4, cpu_cores) };
        assert_eq!(replicas_of(&mut hpa, &obs), expect);
    };
    check(0.1, 4.0);
    check(1.0, 8.0);
}

#[test]
fn after_a_silence_that_was_longer_than_the_window_the_present_number_stands_in() {
    let mut hpa = HpaConfig::default().build().unwrap();
    assert_eq!(replicas_of(&mut hpa, &observation(0, 10, 0.8)), 10.0);
    // Without an evaluation for ten minutes, one low figure is no trend.
    assert_eq!(replicas_of(&mut hpa, &observation(600, 10, 0.1)), 10.0);
    assert_eq!(replicas_of(&mut hpa, &observation(885, 10, 0.1)), 10.0);
    assert!(replicas_of(&mut hpa, &observation(900, 10, 0.1)) < 10.0);
}

#[test]
fn without_any_figure_nothing_is_done() {
    let mut obs = observation(0, 3, 0.9);
    obs.replicas.iter_mut().for_each(|replica| replica.cpu_cores = Some(f64::NAN));
    assert_eq!(replicas_of(&mut hpa(50), &obs), 3.0);
    assert_eq!(words_of(&mut hpa(50), &obs), "no replica has a figure of CPU utilisation");
}

#[test]
fn it_grows_by_the_larger_of_four_and_all_in_fifteen_seconds() {
    let mut hpa = hpa(10);
    let mut steps = Vec::new();
    let mut replicas = 1;
    for seconds in [0, 5, 10, 15, 30, 45] {
        replicas = replicas_of(&mut hpa, &observation(seconds, replicas, 1.0)) as u32;
        steps.push(replicas);
    }
    assert_eq!(steps, [5, 5, 5, 10, 20, 40]);
}

#[test]
fn only_what_took_effect_counts_against_the_rate() {
    let mut hpa = hpa(10);
    assert_eq!(replicas_of(&mut hpa, &observation(0, 1, 1.0)), 5.0);
    // Guardrails let one through: three of four are left for this period.
    assert_eq!(replicas_of(&mut hpa, &observation(5, 2, 1.0)), 5.0);
}

#[test]
fn where_nobody_acts_memory_does_not_grow() {
    let config = HpaConfig { min_replicas: 2, ..HpaConfig::default() };
    let mut hpa = config.build().unwrap();
    for evaluation in 0..100 {
        assert_eq!(replicas_of(&mut hpa, &observation(evaluation * 15, 1, 0.5)), 2.0);
    }
    let mut snapshot = Snapshot::default();
    hpa.save("hpa", &mut snapshot);
    assert_eq!(snapshot.any_u64s("hpa/behavior/added").unwrap(), []);
}

#[test]
fn a_used_up_rate_takes_nothing_back_when_others_change_the_number() {
    let mut hpa = hpa(10);
    assert_eq!(replicas_of(&mut hpa, &observation(0, 10, 1.0)), 20.0);
    assert_eq!(replicas_of(&mut hpa, &observation(5, 20, 1.0)), 20.0);
    assert_eq!(replicas_of(&mut hpa, &observation(10, 8, 1.0)), 8.0);
}

#[test]
fn it_shrinks_to_the_highest_recommendation_of_five_minutes() {
    let mut hpa = hpa(50);
    let mut seen = Vec::new();
    for (seconds, use_of_ten) in [(0, 0.5), (60, 0.3), (120, 0.4), (180, 0.2), (299, 0.2)] {
        seen.push(replicas_of(&mut hpa, &observation(seconds, 10, use_of_ten)));
    }
    assert_eq!(seen, [10.0; 5]);
    // The 10 of the start is gone, then the 6 of t+60, then the 8 of t+120.
    assert_eq!(replicas_of(&mut hpa, &observation(300, 10, 0.2)), 8.0);
    assert_eq!(replicas_of(&mut hpa, &observation(420, 8, 0.25)), 4.0);
}

#[test]
fn a_fresh_start_takes_nothing_away_before_the_window_is_over() {
    let mut hpa = hpa(50);
    assert_eq!(replicas_of(&mut hpa, &observation(0, 10, 0.05)), 10.0);
    let words = words_of(&mut hpa, &observation(299, 10, 0.05));
    assert!(
        words.ends_with("10 instead of 1 replica: the stabilisation window of 5m holds"),
        "{words}"
    );
    assert_eq!(replicas_of(&mut hpa, &observation(300, 10, 0.05)), 1.0);
}

#[test]
fn the_smallest_policy_counts_if_so_configured_and_a_disabled_direction_never_moves() {
    let obs = observation(0, 10, 1.0);
    let mut smallest = with_behavior(|behavior| behavior.up.select = SelectPolicy::Min);
    assert_eq!(replicas_of(&mut smallest, &obs), 14.0);
    let mut disabled = with_behavior(|behavior| behavior.up.select = SelectPolicy::Disabled);
    assert_eq!(replicas_of(&mut disabled, &obs), 10.0);
    assert!(words_of(&mut disabled, &obs).ends_with("scaling rate allows 10 replicas now"));
}

#[test]
fn scale_down_policies_limit_each_period() {
    let mut hpa = with_behavior(|behavior| {
        behavior.down.stabilization = SimDuration::ZERO;
        let period = secs(60);
        behavior.down.policies = vec![
            ScalingPolicy { step: ScalingStep::Replicas(2), period },
            ScalingPolicy { step: ScalingStep::Percent(25), period },
        ];
    });
    // A quarter of ten leaves 7.5, rounded down; then the period is used up.
    assert_eq!(replicas_of(&mut hpa, &observation(0, 10, 0.05)), 7.0);
    assert_eq!(replicas_of(&mut hpa, &observation(30, 7, 0.05)), 7.0);
    assert_eq!(replicas_of(&mut hpa, &observation(60, 7, 0.05)), 5.0);
    // Somebody took more away than was asked for: that is not given back either.
    assert_eq!(replicas_of(&mut hpa, &observation(300, 20, 0.05)), 15.0);
    assert_eq!(replicas_of(&mut hpa, &observation(330, 10, 0.05)), 10.0);
}

#[test]
fn a_long_stabilisation_window_delays_growth_to_what_lasts() {
    let mut hpa = with_behavior(|behavior| behavior.up.stabilization = secs(60));
    assert_eq!(replicas_of(&mut hpa, &observation(0, 2, 1.0)), 2.0);
    assert_eq!(replicas_of(&mut hpa, &observation(30, 2, 1.5)), 2.0);
    // The 4 of the start is a minute old; the 6 of t+30 is the least that has lasted.
    assert_eq!(replicas_of(&mut hpa, &observation(60, 2, 2.0)), 6.0);
}

#[test]
fn a_young_replica_counts_once_it_was_ready_for_a_whole_window() {
    let young = |seconds: u64, is_ready: bool| {
        let mut obs = observation(seconds, 3, 1.0);
        obs.replicas[0] = replica(0.0, 100);
        obs.replicas[0].started = at(0);
        obs.replicas[0].is_ready = is_ready;
        obs
    };
    let mut hpa = with_behavior(|behavior| behavior.down.stabilization = SimDuration::ZERO);
    // Two at 100 % and an idle one in doubt: 66 % of three.
    let grown = |hpa: &mut Hpa, obs: &Observation| replicas_of(hpa, obs);
    assert_eq!(grown(&mut hpa, &young(1, false)), 4.0);
    // At 55 % of the two that count the target is met; the start-up of the third is no sign.
    let mut calm = young(16, true);
    calm.replicas[0].cpu_cores = Some(3.0);
    calm.replicas[1].cpu_cores = Some(0.5);
    calm.replicas[2].cpu_cores = Some(0.5);
    assert_eq!(grown(&mut hpa, &calm), 3.0);
    // Ready for a whole window now: four cores over three replicas.
    calm.now = at(31);
    assert_eq!(grown(&mut hpa, &calm), 7.0);
}

#[test]
fn who_knows_that_a_young_replica_served_all_the_time_need_not_wait_to_see_it() {
    let young = |served_throughout: bool| {
        let mut obs = observation(20, 2, 0.5);
        obs.replicas[0].started = at(0);
        obs.replicas[0].served_throughout = Some(served_throughout);
        obs.replicas[0].cpu_cores = Some(1.5);
        obs
    };
    assert_eq!(replicas_of(&mut hpa(50), &young(true)), 4.0);
    // Its start is in the figure, which therefore is no sign of load.
    assert_eq!(replicas_of(&mut hpa(50), &young(false)), 2.0);
}

#[test]
fn a_replica_that_became_unready_under_load_keeps_counting() {
    let mut hpa = hpa(50);
    hpa.propose(&observation(0, 2, 0.5));
    let mut obs = observation(15, 2, 0.5);
    obs.replicas[1].is_ready = false;
    obs.replicas[1].cpu_cores = Some(1.0);
    assert_eq!(replicas_of(&mut hpa, &obs), 3.0);
    // One that never was ready does not: its figure is no load.
    let mut fresh = self::hpa(50);
    assert_eq!(replicas_of(&mut fresh, &obs), 2.0);
}

#[test]
fn zero_replicas_switch_it_off_unless_zero_is_allowed() {
    let obs = Observation { concurrency: 4.0, ..observation(0, 0, 0.0) };
    assert_eq!(replicas_of(&mut hpa(50), &obs), 0.0);
    let metrics = vec![HpaMetric::Concurrency { target: 1.0 }];
    let config = HpaConfig { metrics, min_replicas: 0, ..HpaConfig::default() };
    assert_eq!(replicas_of(&mut config.build().unwrap(), &obs), 4.0);
}

#[test]
fn its_own_limits_hold() {
    let mut config = HpaConfig { min_replicas: 2, max_replicas: 6, ..HpaConfig::default() };
    config.behavior.down.stabilization = SimDuration::ZERO;
    let check = |replicas, cpu_cores, expect| {
        let mut hpa = config.clone().build().unwrap();
        assert_eq!(replicas_of(&mut hpa, &observation(0, replicas, cpu_cores)), expect);
    };
    check(5, 3.0, 6.0);
    check(5, 0.0, 2.0);
    check(9, 0.8, 6.0);
    check(1, 0.8, 2.0);
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let check = |config: HpaConfig, expect: &str| {
        assert_eq!(config.build().unwrap_err().to_string(), expect);
    };
    let default = HpaConfig::default;
    check(HpaConfig { metrics: vec![], ..default() }, "metrics must be at least one, got none");
    check(
        HpaConfig { metrics: vec![HpaMetric::Arrivals { target: f64::NAN }], ..default() },
        "target of a metric must be a finite number above 0, got NaN",
    );
    check(
        HpaConfig { min_replicas: 4, max_replicas: 3, ..default() },
        "min_replicas must be at most max_replicas, got 4",
    );
    let mut empty = default();
    empty.behavior.up.policies.clear();
    check(empty, "scaling policies must be given unless the direction is disabled, got none");
}

/// Work that keeps eight cores busy, on replicas that start with half a core each; an hour of
/// 15 s steps in which every proposal is carried out. The last allocation.
fn settle(policy: &mut dyn Policy) -> Allocation {
    let mut allocation = allocation(12, 500, 512);
    for step in 0..240 {
        let each = 8.0 / f64::from(allocation.replicas);
        let mut obs = observation(step * 15, allocation.replicas, each);
        obs.allocation = allocation;
        let proposal = policy.propose(&obs);
        allocation.replicas = proposal.replicas as u32;
        allocation.cpu = Millicores::from_cores(proposal.cpu_cores).unwrap();
    }
    allocation
}

#[test]
fn both_autoscalers_on_cpu_chase_each_other_where_each_alone_settles() {
    let metrics = vec![HpaMetric::CpuUtilization { target_percent: 50 }];
    let hpa = HpaConfig { metrics, max_replicas: 500, ..HpaConfig::default() };
    let vpa = VpaConfig::scaled(1440.0).unwrap();
    // Eight cores at half a core and 50 % each are 32 replicas, or 29 within the tolerance.
    let horizontal = settle(&mut hpa.clone().build().unwrap());
    assert!((29..=32).contains(&horizontal.replicas), "{horizontal}");
    // Two thirds of a core each and the margin.
    let vertical = settle(&mut vpa.build().unwrap());
    assert!((0.7..0.9).contains(&vertical.cpu.cores()), "{vertical}");
    // The same load ends on hundreds of crumbs, at the limit of one and the minimum of the
    // other.
    let both = settle(&mut HpaVpaConfig { hpa, vpa }.build().unwrap());
    assert!(both.replicas > 200 && both.cpu.cores() < 0.1, "{both}");
}
