//! The decision path and its limits.

use homeostat_core::{Fraction, Persist, SimDuration, Snapshot};
use homeostat_decide::{
    Allocation, AutoRollbackConfig, CanaryConfig, CoolDownConfig, Decision, Guards, GuardsConfig,
    MetricsStatus, Observation, Pause, PodScaling, PreparedProposal, Proposal, RateLimitConfig,
    Reason, Setting, Share, SloStatus, StepLimit, StepSize, decide,
};
use proptest::prelude::*;

use crate::observations::{allocation, at, bounds, observation, secs};

/// Decides at a time, from one allocation towards another.
fn step(guards: &mut Guards, seconds: u64, from: Allocation, wanted: Allocation) -> Decision {
    let obs = Observation { allocation: from, ..observation(seconds, 0, 0.0) };
    towards(guards, &obs, &wanted)
}

/// Decides on an observation, towards an allocation.
fn towards(guards: &mut Guards, obs: &Observation, wanted: &Allocation) -> Decision {
    let proposal = Proposal::keep(wanted).because(Reason::Fixed);
    decide(&mut PreparedProposal::new(proposal), guards, obs)
}

fn only_bounds() -> Guards {
    Guards::bounds_only(bounds()).unwrap()
}

fn words(decision: &Decision) -> Vec<String> {
    decision.reasons().iter().map(ToString::to_string).collect()
}

fn limited() -> GuardsConfig {
    let replicas = Some(StepSize { absolute: 2, relative: Fraction::from_percent(50) });
    let size = |amount| Some(StepSize::absolute(amount));
    GuardsConfig {
        steps: vec![
            StepLimit { up: replicas, down: replicas },
            StepLimit { up: size(500), down: size(125) },
            StepLimit { up: None, down: size(64 << 20) },
        ],
        ..GuardsConfig::bounds_only(bounds())
    }
}

#[test]
fn a_legal_proposal_passes_as_it_is() {
    let wanted = allocation(12, 750, 320);
    let decision = step(&mut only_bounds(), 0, allocation(3, 500, 256), wanted);
    assert_eq!((decision.proposed(), decision.applied()), (&wanted, &wanted));
    assert_eq!(
        decision.to_string(),
        "t+100000s: 3 x (500m, 256Mi) -> 12 x (750m, 320Mi): fixed allocation"
    );
}

#[test]
fn every_clamp_names_its_limit() {
    let from = allocation(3, 500, 256);
    let check = |wanted, applied, expect: &[&str]| {
        let decision = step(&mut only_bounds(), 0, from, wanted);
        assert_eq!(*decision.applied(), applied);
        assert_eq!(words(&decision)[1..], *expect);
    };
    check(
        allocation(99, 9000, 256),
        allocation(20, 2000, 256),
        &["clamped to at most 20 replicas", "clamped to at most 2000m CPU"],
    );
    check(
        allocation(3, 10, 1),
        allocation(3, 125, 64),
        &["clamped to at least 125m CPU", "clamped to at least 64Mi memory"],
    );
}

#[test]
fn steps_are_limited_each_way_and_replicas_by_the_larger_limit() {
    let check = |from, wanted, applied| {
        let decision = step(&mut limited().build().unwrap(), 0, from, wanted);
        assert_eq!(*decision.applied(), applied, "{decision}");
    };
    check(allocation(2, 500, 256), allocation(20, 2000, 2048), allocation(4, 1000, 2048));
    check(allocation(10, 1000, 256), allocation(20, 125, 64), allocation(15, 875, 192));
    check(allocation(10, 500, 256), allocation(1, 500, 256), allocation(5, 500, 256));
    check(allocation(1, 500, 256), allocation(0, 500, 256), allocation(0, 500, 256));
}

#[test]
fn an_allocation_outside_the_bounds_comes_inside_at_once() {
    let from = allocation(50, 8000, 4096);
    let decision = step(&mut limited().build().unwrap(), 0, from, from);
    assert_eq!(*decision.applied(), allocation(20, 2000, 2048));
    let lower = allocation(1, 125, 64);
    let decision = step(&mut limited().build().unwrap(), 0, from, lower);
    assert_eq!(*decision.applied(), allocation(10, 1875, 1984));
}

#[test]
fn numbers_that_are_none_are_refused_counted_and_change_nothing() {
    let mut guards = only_bounds();
    let obs = observation(0, 3, 0.5);
    let good = Proposal::keep(&allocation(9, 500, 256));
    let broken = [
        (Proposal { replicas: f64::NAN, ..good.clone() }, "NaN is not a valid amount of replicas"),
        (Proposal { cpu_cores: f64::INFINITY, ..good.clone() }, "inf is not a valid amount of CPU"),
        (Proposal { memory_bytes: -1.0, ..good.clone() }, "-1 is not a valid amount of memory"),
    ];
    for (count, (proposal, expect)) in broken.into_iter().enumerate() {
        let decision = decide(&mut PreparedProposal::new(proposal), &mut guards, &obs);
        assert_eq!((decision.proposed(), decision.applied()), (&obs.allocation, &obs.allocation));
        assert_eq!(words(&decision), [format!("refused: {expect}")]);
        assert_eq!(guards.refusals(), count as u64 + 1);
    }
    let decision = decide(&mut PreparedProposal::new(good), &mut guards, &obs);
    assert_eq!(words(&decision), ["the policy gave no reason"]);
    assert_eq!((decision.applied(), guards.refusals()), (&allocation(9, 500, 256), 3));
}

#[test]
fn numbers_too_large_for_their_unit_are_clamped() {
    let huge = Proposal { replicas: 1e300, cpu_cores: 1e300, memory_bytes: 1e300, reasons: vec![] };
    let obs = observation(0, 3, 0.5);
    let decision = decide(&mut PreparedProposal::new(huge), &mut only_bounds(), &obs);
    assert_eq!(*decision.applied(), allocation(20, 2000, 2048));
}

#[test]
fn a_dimension_that_moved_cools_down_before_it_goes_down() {
    let cool_down = CoolDownConfig { up: secs(10), down: secs(60) };
    let guards =
        &mut GuardsConfig { cool_down, ..GuardsConfig::bounds_only(bounds()) }.build().unwrap();
    let (few, more, most) =
        (allocation(3, 500, 256), allocation(6, 500, 256), allocation(9, 500, 256));
    assert_eq!(*step(guards, 0, few, more).applied(), more);
    let decision = step(guards, 5, more, most);
    assert_eq!(*decision.applied(), more);
    assert_eq!(words(&decision)[1], "held: replicas cool-down for another 5s");
    assert_eq!(*step(guards, 10, more, most).applied(), most);
    let decision = step(guards, 30, most, few);
    assert_eq!(words(&decision)[1], "held: replicas cool-down for another 40s");
    // Another dimension has its own clock.
    let smaller = allocation(9, 250, 256);
    assert_eq!(*step(guards, 31, most, smaller).applied(), smaller);
    assert_eq!(*step(guards, 70, most, few).applied(), few);
    // Going down starts the clock of the next way down, not of the next way up.
    assert_eq!(*step(guards, 71, few, allocation(1, 500, 256)).applied(), few);
    assert_eq!(*step(guards, 71, few, more).applied(), more);
}

#[test]
fn a_rate_limit_counts_changes_of_any_kind() {
    let rate_limit = Some(RateLimitConfig { changes: 2, per: secs(60) });
    let guards =
        &mut GuardsConfig { rate_limit, ..GuardsConfig::bounds_only(bounds()) }.build().unwrap();
    let sizes = [allocation(3, 500, 256), allocation(4, 500, 256), allocation(4, 750, 256)];
    assert!(step(guards, 0, sizes[0], sizes[1]).is_change());
    assert!(!step(guards, 10, sizes[1], sizes[1]).is_change());
    assert!(step(guards, 20, sizes[1], sizes[2]).is_change());
    let decision = step(guards, 30, sizes[2], sizes[0]);
    assert_eq!(words(&decision)[1], "held: at most 2 changes in 60s, for another 30s");
    assert!(!decision.is_change());
    assert!(step(guards, 60, sizes[2], sizes[0]).is_change());
    assert!(!step(guards, 61, sizes[0], sizes[1]).is_change());
}

#[test]
fn a_change_that_is_not_carried_out_yet_is_decided_again_and_counts_once() {
    let free = GuardsConfig::bounds_only(bounds());
    let cool_down = CoolDownConfig { up: secs(60), down: secs(60) };
    let rate_limit = Some(RateLimitConfig { changes: 1, per: secs(60) });
    let check = |config: GuardsConfig, why: &str| {
        let guards = &mut config.clone().build().unwrap();
        let [few, more, most] = [3, 6, 9].map(|replicas| allocation(replicas, 500, 256));
        // Its pods are not replaced yet, or nothing is applied at all.
        for seconds in [0, 15, 30] {
            let decision = step(guards, seconds, few, more);
            assert_eq!(*decision.applied(), more, "{decision}");
            assert_eq!(decision.reasons().len(), 1, "{decision}");
        }
        // A smaller part of it is no second change, and a larger one is.
        let part = allocation(4, 500, 256);
        assert_eq!(*step(guards, 40, few, part).applied(), part);
        let decision = step(guards, 45, few, most);
        assert_eq!(*decision.applied(), part, "{decision}");
        assert_eq!(words(&decision)[1], why);
        // A restart changes nothing.
        let mut saved = Snapshot::default();
        guards.save("guards", &mut saved);
        let mut restored = config.build().unwrap();
        restored.load("guards", &saved).unwrap();
        assert_eq!(*step(&mut restored, 50, few, most).applied(), part);
        assert_eq!(*step(guards, 60, few, most).applied(), most);
    };
    let why = "held: replicas cool-down for another 15s";
    check(GuardsConfig { cool_down, ..free.clone() }, why);
    check(GuardsConfig { rate_limit, ..free }, "held: at most 1 changes in 60s, for another 15s");
}

#[test]
fn limits_that_mean_nothing_or_stop_everything_are_refused() {
    let check = |config: GuardsConfig, expect: &str| {
        assert_eq!(config.build().err().unwrap().to_string(), expect);
    };
    let base = GuardsConfig::bounds_only(bounds());
    let steps = vec![StepLimit { up: Some(StepSize::absolute(0)), down: None }];
    check(
        GuardsConfig { steps, ..base.clone() },
        "step must be above 0 (leave it out for no limit), got 0",
    );
    let rate_limit = Some(RateLimitConfig { changes: 1, per: SimDuration::ZERO });
    check(
        GuardsConfig { rate_limit, ..base.clone() },
        "time of the rate limit must be above 0 (leave it out for no limit), got 0ns",
    );
    check(
        GuardsConfig { steps: vec![StepLimit::default(); 4], ..base.clone() },
        "steps must be at most one for each dimension of the setting, got 4",
    );
    let canary = Some(CanaryConfig { dimension: 3, share: Share::Count(1), watch: secs(1) });
    check(
        GuardsConfig { canary, ..base },
        "canary.dimension must be the index of a dimension of the setting, got 3",
    );
}

#[test]
fn incomplete_metrics_hold_a_target_and_then_let_it_only_grow() {
    let config = GuardsConfig { stale_metrics_hold: secs(60), ..limited() };
    let mut guards = config.build().unwrap();
    let mut check = |seconds, metrics, wanted: u32, replicas, why: &str| {
        let obs = Observation { metrics, ..observation(seconds, 4, 0.5) };
        let decision = towards(&mut guards, &obs, &allocation(wanted, 1000, 512));
        assert_eq!(decision.applied().replicas, replicas, "{decision}");
        assert!(words(&decision).contains(&why.to_owned()), "{decision}");
    };
    let held = "held: metrics are incomplete, for another";
    check(0, MetricsStatus::UtilizationOnly, 6, 4, &format!("{held} 60s"));
    check(20, MetricsStatus::Missing, 6, 4, &format!("{held} 40s"));
    check(60, MetricsStatus::UtilizationOnly, 6, 6, "fixed allocation");
    check(
        75,
        MetricsStatus::UtilizationOnly,
        2,
        4,
        "held: no scale-down while a metric is missing",
    );
    check(90, MetricsStatus::Missing, 6, 4, "held: utilisation is unknown");
    check(105, MetricsStatus::Complete, 3, 3, "fixed allocation");
}

#[test]
fn nothing_goes_down_while_the_slo_is_violated() {
    let config = GuardsConfig { hold_while_violated: true, ..limited() };
    let mut guards = config.build().unwrap();
    let slow = Observation { slo_status: Some(SloStatus::Violated), ..observation(0, 4, 0.5) };
    let decision = towards(&mut guards, &slow, &allocation(3, 1250, 256));
    assert_eq!(*decision.applied(), allocation(4, 1250, 512));
    assert_eq!(words(&decision)[1], "held: nothing goes down while the SLO is violated");
    let unknown = Observation { slo_status: Some(SloStatus::Unknown), ..slow };
    let decision = towards(&mut guards, &unknown, &allocation(3, 1000, 512));
    assert_eq!(decision.applied().replicas, 3);
}

#[test]
fn each_pause_stops_its_own_direction_even_outside_the_bounds() {
    let (from, to) = (allocation(40, 500, 512), allocation(18, 750, 512));
    let check = |pause, expect| {
        let config = GuardsConfig { pause: Some(pause), ..GuardsConfig::bounds_only(bounds()) };
        let decision = step(&mut config.build().unwrap(), 0, from, to);
        assert_eq!(*decision.applied(), expect, "{decision}");
        assert_eq!(*words(&decision).last().unwrap(), format!("paused: {pause}"));
    };
    check(Pause::All, from);
    check(Pause::In, allocation(40, 750, 512));
    check(Pause::Out, allocation(18, 500, 512));
}

#[test]
fn what_is_not_requested_and_not_recommended_is_left_alone() {
    let mut guards = limited().build().unwrap();
    let nothing = allocation(2, 0, 0);
    assert_eq!(*step(&mut guards, 0, nothing, nothing).applied(), nothing);
    let first = allocation(2, 300, 0);
    assert_eq!(*step(&mut guards, 0, nothing, first).applied(), first);
}

mod canary {
    use super::*;

    #[test]
    fn fewer_replicas_go_part_by_part_and_more_at_once() {
        let (dimension, share) = (PodScaling::REPLICAS, Share::Count(1));
        let canary = Some(CanaryConfig { dimension, share, watch: secs(300) });
        let mut guards =
            GuardsConfig { canary, ..GuardsConfig::bounds_only(bounds()) }.build().unwrap();
        let mut check = |seconds, is_met, from, to, expect, why: &str| {
            let status = if is_met { SloStatus::Met } else { SloStatus::Violated };
            let obs = Observation { slo_status: Some(status), ..observation(seconds, from, 0.5) };
            let decision = towards(&mut guards, &obs, &allocation(to, 1000, 512));
            assert_eq!(decision.applied().replicas, expect, "{decision}");
            assert_eq!(words(&decision).last().unwrap(), why);
        };
        check(0, true, 8, 12, 12, "fixed allocation");
        check(10, true, 8, 4, 7, "canary: 1 replica first");
        check(210, true, 7, 4, 7, "canary: observed for another 100s");
        check(320, false, 7, 4, 7, "canary: the SLO is violated, so the step stops here");
        check(330, true, 7, 6, 6, "fixed allocation");
    }

    #[test]
    fn a_step_that_a_pause_holds_is_not_watched() {
        let (dimension, share) = (PodScaling::REPLICAS, Share::Count(1));
        let canary = Some(CanaryConfig { dimension, share, watch: secs(300) });
        let config = GuardsConfig { canary, ..GuardsConfig::bounds_only(bounds()) };
        let paused = GuardsConfig { pause: Some(Pause::All), ..config.clone() };
        let guards = &mut paused.build().unwrap();
        let [all, fewer] = [8, 4].map(|replicas| allocation(replicas, 500, 256));
        assert_eq!(*step(guards, 0, all, fewer).applied(), all);
        guards.reconfigure(config).unwrap();
        assert_eq!(step(guards, 10, all, fewer).applied().replicas, 7);
        assert_eq!(step(guards, 20, allocation(7, 500, 256), fewer).applied().replicas, 7);
    }
}

mod auto_rollback {
    use super::*;

    fn guards() -> Guards {
        let auto_rollback = Some(AutoRollbackConfig { watch: secs(300), hold: secs(1800) });
        GuardsConfig { auto_rollback, ..GuardsConfig::bounds_only(bounds()) }.build().unwrap()
    }

    /// Decides a step from what replicas have.
    fn review(
        guards: &mut Guards,
        seconds: u64,
        is_met: Option<bool>,
        from: Allocation,
        to: Allocation,
    ) -> Allocation {
        let status = match is_met {
            Some(true) => SloStatus::Met,
            Some(false) => SloStatus::Violated,
            None => SloStatus::Unknown,
        };
        let obs = Observation {
            allocation: from,
            slo_status: Some(status),
            ..observation(seconds, 0, 0.0)
        };
        *towards(guards, &obs, &to).applied()
    }

    fn replicas(guards: &mut Guards, seconds: u64, is_met: bool, from: u32, to: u32) -> u32 {
        let [from, to] = [from, to].map(|replicas| allocation(replicas, 500, 512));
        review(guards, seconds, Some(is_met), from, to).replicas
    }

    #[test]
    fn a_step_down_that_violates_the_slo_is_undone_and_held() {
        let guards = &mut guards();
        assert_eq!(replicas(guards, 0, true, 8, 5), 5);
        assert_eq!(replicas(guards, 60, true, 5, 4), 4);
        assert_eq!(replicas(guards, 120, false, 4, 4), 8);
        assert!(guards.holds_after_rollback());
        assert_eq!(replicas(guards, 180, true, 8, 4), 8);
        assert_eq!(replicas(guards, 180, true, 8, 10), 10);
        assert_eq!(replicas(guards, 120 + 1800, true, 8, 4), 4);
    }

    #[test]
    fn a_violation_long_after_a_step_or_without_one_undoes_nothing() {
        let guards = &mut guards();
        assert_eq!(replicas(guards, 0, false, 8, 8), 8);
        assert_eq!(replicas(guards, 60, true, 8, 5), 5);
        assert_eq!(replicas(guards, 361, false, 5, 6), 6);
    }

    #[test]
    fn an_unknown_slo_undoes_nothing() {
        let guards = &mut guards();
        assert_eq!(replicas(guards, 0, true, 8, 5), 5);
        let five = allocation(5, 500, 512);
        assert_eq!(review(guards, 60, None, five, five), five);
    }

    #[test]
    fn a_step_that_was_decided_and_never_taken_is_not_blamed() {
        let guards = &mut guards();
        for window in 0..100 {
            assert_eq!(replicas(guards, window * 15, true, 8, 5), 5);
        }
        assert_eq!(replicas(guards, 1500, false, 8, 8), 8);
        assert_eq!(replicas(guards, 1515, true, 8, 5), 5);
    }

    #[test]
    fn a_size_that_was_restored_stays_until_every_replica_has_it() {
        let guards = &mut guards();
        let size = |millicores| allocation(4, millicores, 512);
        review(guards, 0, Some(true), size(500), size(300));
        review(guards, 60, Some(true), size(300), size(300));
        assert_eq!(review(guards, 75, Some(false), size(300), size(300)), size(500));
        for seconds in [90, 600, 1800] {
            assert_eq!(review(guards, seconds, Some(true), size(300), size(300)), size(500));
        }
        assert_eq!(review(guards, 75 + 1800, Some(true), size(500), size(300)), size(300));
    }

    #[test]
    fn a_slow_rollout_and_a_single_replica_of_many_are_watched() {
        let slow = &mut guards();
        let size = |millicores| allocation(14, millicores, 512);
        for window in 0..8 {
            review(slow, 15 * window, Some(true), size(500 - 3 * window), size(350));
        }
        assert_eq!(review(slow, 120, Some(false), size(476), size(350)).cpu, size(500).cpu);

        let one = &mut guards();
        assert_eq!(replicas(one, 0, true, 20, 19), 19);
        assert_eq!(replicas(one, 15, true, 19, 19), 19);
        assert_eq!(replicas(one, 30, false, 19, 19), 20);
    }

    #[test]
    fn a_restored_guard_still_watches() {
        let mut before = guards();
        replicas(&mut before, 0, true, 8, 5);
        let mut snapshot = Snapshot::default();
        before.save("guards", &mut snapshot);
        let mut restored = guards();
        restored.load("guards", &snapshot).unwrap();
        assert_eq!(replicas(&mut restored, 60, false, 5, 5), 8);
    }

    #[test]
    fn undoing_comes_no_faster_than_any_other_step_up() {
        let up = Some(StepSize { absolute: 2, relative: Fraction::ZERO });
        let config = GuardsConfig {
            auto_rollback: Some(AutoRollbackConfig { watch: secs(300), hold: secs(1800) }),
            steps: vec![StepLimit { up, down: None }],
            ..GuardsConfig::bounds_only(bounds())
        };
        let guards = &mut config.build().unwrap();
        assert_eq!(replicas(guards, 0, true, 8, 2), 2);
        assert_eq!(replicas(guards, 60, false, 2, 2), 4);
        assert_eq!(replicas(guards, 75, true, 4, 2), 6);
    }
}

prop_compose! {
    fn any_allocation()(
        replicas in 0u32..=40, cpu in 1u64..=4000, memory in 1u64..=4096,
    ) -> Allocation {
        allocation(replicas, cpu, memory)
    }
}

prop_compose! {
    fn any_config()(
        absolute in 1u64..5, percent in 0u32..200, cpu in 1u64..2000, mebibytes in 1u64..1024,
        has_step in any::<[bool; 6]>(), rate in prop::option::of((1u32..4, 1u64..100)),
        up in 0u64..60, down in 0u64..60,
    ) -> GuardsConfig {
        let replicas = StepSize { absolute, relative: Fraction::from_percent(percent) };
        let sizes = [replicas, StepSize::absolute(cpu), StepSize::absolute(mebibytes << 20)];
        let steps = sizes.iter().enumerate().map(|(index, size)| StepLimit {
            up: has_step[2 * index].then_some(*size), down: has_step[2 * index + 1].then_some(*size),
        });
        GuardsConfig {
            steps: steps.collect(),
            rate_limit: rate.map(|(changes, per)| RateLimitConfig { changes, per: secs(per) }),
            cool_down: CoolDownConfig { up: secs(up), down: secs(down) },
            ..GuardsConfig::bounds_only(bounds())
        }
    }
}

proptest! {
    #[test]
    fn what_is_applied_is_inside_the_bounds_and_no_step_is_too_large(
        config in any_config(), start in any_allocation(),
        proposals in prop::collection::vec((0u64..30, any_allocation()), 1..12),
    ) {
        let mut guards = config.clone().build().unwrap();
        let mut from = start;
        let mut seconds = 0;
        let mut changes = Vec::new();
        for (wait, wanted) in proposals {
            seconds += wait;
            let decision = step(&mut guards, seconds, from, wanted);
            let (base, to) = (config.bounds.clamp(&from), *decision.applied());
            prop_assert!(config.bounds.contains(&to));
            prop_assert!(!decision.reasons().is_empty());
            for (index, limit) in config.steps.iter().enumerate() {
                let (before, after) = (base.amount(index), to.amount(index));
                let size = if after > before { limit.up } else { limit.down };
                let is_in_step = size.is_none_or(|size| {
                    let relative = (before as f64 * size.relative.ratio()) as u64;
                    before.abs_diff(after) <= size.absolute.max(relative)
                });
                prop_assert!(is_in_step, "{}", decision);
            }
            if decision.is_change() {
                changes.push(at(seconds));
            }
            let is_free = decision.is_change() && from == base;
            if let Some(limit) = config.rate_limit.filter(|_| is_free) {
                let recent = changes.iter().filter(|change| **change + limit.per > at(seconds));
                prop_assert!(recent.count() <= limit.changes as usize);
            }
            prop_assert!(decision.reasons().len() > 1 || to == wanted, "an unexplained limit");
            from = to;
        }
    }

    #[test]
    fn a_legal_proposal_is_left_alone_and_what_was_applied_is_legal(
        from in any_allocation(), wanted in any_allocation(),
    ) {
        let once = *step(&mut limited().build().unwrap(), 0, from, wanted).applied();
        let again = step(&mut limited().build().unwrap(), 0, from, once);
        prop_assert_eq!(*again.applied(), once);
        prop_assert_eq!(again.reasons().len(), 1);
    }

    #[test]
    fn one_number_that_is_none_holds_everything(
        config in any_config(), from in any_allocation(), dimension in 0usize..3,
        broken in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), -9.0..-1e-9],
    ) {
        let mut numbers = [5.0, 0.5, 1e8];
        numbers[dimension] = broken;
        let [replicas, cpu_cores, memory_bytes] = numbers;
        let proposal = Proposal { replicas, cpu_cores, memory_bytes, reasons: vec![] };
        let obs = Observation { allocation: from, ..observation(0, 0, 0.0) };
        let mut guards = config.build().unwrap();
        let decision = decide(&mut PreparedProposal::new(proposal), &mut guards, &obs);
        prop_assert_eq!(*decision.applied(), guards.bounds().clamp(&from));
        prop_assert_eq!(guards.refusals(), 1);
    }
}
