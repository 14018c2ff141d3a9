//! The decision path and its limits.

use homeostat_core::{Bytes, Fraction, Millicores, Persist, Result, SimDuration, Snapshot};
use homeostat_decide::{
    Allocation, Decision, GuardrailMemory, Guardrails, GuardrailsConfig, Observation, Policy,
    Proposal, RateLimit, Reason, ReplicaStep, Step, decide,
};
use proptest::prelude::*;

use crate::observations::{allocation, at, bounds, observation, secs};

/// A policy that says what it was told to say.
struct Scripted(Proposal);

impl Scripted {
    fn wanting(allocation: &Allocation) -> Self {
        Self(Proposal::keep(allocation).because(Reason::Fixed))
    }
}

impl Policy for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn propose(&mut self, _obs: &Observation) -> Proposal {
        self.0.clone()
    }
}

impl Persist for Scripted {
    fn save(&self, _name: &str, _out: &mut Snapshot) {}

    fn load(&mut self, _name: &str, _from: &Snapshot) -> Result<()> {
        Ok(())
    }
}

/// Decides at a time, from one allocation towards another.
fn step(
    guardrails: &Guardrails,
    memory: &mut GuardrailMemory,
    seconds: u64,
    from: Allocation,
    wanted: Allocation,
) -> Decision {
    let obs = Observation { allocation: from, ..observation(seconds, 0, 0.0) };
    decide(&mut Scripted::wanting(&wanted), guardrails, memory, &obs)
}

fn words(decision: &Decision) -> Vec<String> {
    decision.reasons.iter().map(ToString::to_string).collect()
}

fn limited() -> GuardrailsConfig {
    let replica_step = ReplicaStep { absolute: 2, relative: Fraction::from_percent(50) };
    GuardrailsConfig {
        replica_step: Step { up: Some(replica_step), down: Some(replica_step) },
        cpu_step: Step { up: Some(Millicores::new(500)), down: Some(Millicores::new(125)) },
        memory_step: Step { up: None, down: Some(Bytes::from_mib(64)) },
        ..GuardrailsConfig::bounds_only(bounds())
    }
}

#[test]
fn a_legal_proposal_passes_as_it_is() {
    let guardrails = Guardrails::bounds_only(bounds()).unwrap();
    let wanted = allocation(12, 750, 320);
    let decision =
        step(&guardrails, &mut GuardrailMemory::default(), 0, allocation(3, 500, 256), wanted);
    assert_eq!((decision.proposed, decision.applied), (wanted, wanted));
    assert_eq!(
        decision.to_string(),
        "t+100000s: 3 x (500m, 256Mi) -> 12 x (750m, 320Mi): fixed allocation"
    );
}

#[test]
fn every_clamp_names_its_limit() {
    let guardrails = Guardrails::bounds_only(bounds()).unwrap();
    let from = allocation(3, 500, 256);
    let check = |wanted, applied, expect: &[&str]| {
        let decision = step(&guardrails, &mut GuardrailMemory::default(), 0, from, wanted);
        assert_eq!(decision.applied, applied);
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
    let guardrails = limited().build().unwrap();
    let check = |from, wanted, applied| {
        let decision = step(&guardrails, &mut GuardrailMemory::default(), 0, from, wanted);
        assert_eq!(decision.applied, applied, "{decision}");
    };
    check(allocation(2, 500, 256), allocation(20, 2000, 2048), allocation(4, 1000, 2048));
    check(allocation(10, 1000, 256), allocation(20, 125, 64), allocation(15, 875, 192));
    check(allocation(10, 500, 256), allocation(1, 500, 256), allocation(5, 500, 256));
    check(allocation(1, 500, 256), allocation(0, 500, 256), allocation(0, 500, 256));
}

#[test]
fn an_allocation_outside_the_bounds_comes_inside_at_once() {
    let guardrails = limited().build().unwrap();
    let from = allocation(50, 8000, 4096);
    let decision = step(&guardrails, &mut GuardrailMemory::default(), 0, from, from);
    assert_eq!(decision.applied, allocation(20, 2000, 2048));
    let lower = allocation(1, 125, 64);
    let decision = step(&guardrails, &mut GuardrailMemory::default(), 0, from, lower);
    assert_eq!(decision.applied, allocation(10, 1875, 1984));
}

#[test]
fn numbers_that_are_none_are_refused_counted_and_change_nothing() {
    let guardrails = Guardrails::bounds_only(bounds()).unwrap();
    let mut memory = GuardrailMemory::default();
    let obs = observation(0, 3, 0.5);
    let good = Proposal::keep(&allocation(9, 500, 256));
    let broken = [
        (Proposal { replicas: f64::NAN, ..good.clone() }, "NaN is no amount of replicas"),
        (Proposal { cpu_cores: f64::INFINITY, ..good.clone() }, "inf is no amount of CPU"),
        (Proposal { memory_bytes: -1.0, ..good.clone() }, "-1 is no amount of memory"),
    ];
    for (count, (proposal, expect)) in broken.into_iter().enumerate() {
        let decision = decide(&mut Scripted(proposal), &guardrails, &mut memory, &obs);
        assert_eq!((decision.proposed, decision.applied), (obs.allocation, obs.allocation));
        assert_eq!(words(&decision), [format!("refused: {expect}")]);
        assert_eq!(memory.refusals(), count as u64 + 1);
    }
    let decision = decide(&mut Scripted(good), &guardrails, &mut memory, &obs);
    assert_eq!(words(&decision), ["the policy gave no reason"]);
    assert_eq!((decision.applied, memory.refusals()), (allocation(9, 500, 256), 3));
}

#[test]
fn numbers_too_large_for_their_unit_are_clamped() {
    let guardrails = Guardrails::bounds_only(bounds()).unwrap();
    let mut policy = Scripted(Proposal {
        replicas: 1e300,
        cpu_cores: 1e300,
        memory_bytes: 1e300,
        reasons: vec![],
    });
    let obs = observation(0, 3, 0.5);
    let decision = decide(&mut policy, &guardrails, &mut GuardrailMemory::default(), &obs);
    assert_eq!(decision.applied, allocation(20, 2000, 2048));
}

#[test]
fn a_dimension_that_moved_cools_down_before_it_goes_down() {
    let guardrails = GuardrailsConfig {
        scale_up_cool_down: secs(10),
        scale_down_cool_down: secs(60),
        ..GuardrailsConfig::bounds_only(bounds())
    }
    .build()
    .unwrap();
    let memory = &mut GuardrailMemory::default();
    let (few, more, most) =
        (allocation(3, 500, 256), allocation(6, 500, 256), allocation(9, 500, 256));
    assert_eq!(step(&guardrails, memory, 0, few, more).applied, more);
    let decision = step(&guardrails, memory, 5, more, most);
    assert_eq!(decision.applied, more);
    assert_eq!(words(&decision)[1], "held: replicas cool-down for another 5s");
    assert_eq!(step(&guardrails, memory, 10, more, most).applied, most);
    let decision = step(&guardrails, memory, 30, most, few);
    assert_eq!(words(&decision)[1], "held: replicas cool-down for another 40s");
    // Another dimension has its own clock.
    let smaller = allocation(9, 250, 256);
    assert_eq!(step(&guardrails, memory, 31, most, smaller).applied, smaller);
    assert_eq!(step(&guardrails, memory, 70, most, few).applied, few);
    // Going down starts the clock of the next way down, not of the next way up.
    assert_eq!(step(&guardrails, memory, 71, few, allocation(1, 500, 256)).applied, few);
    assert_eq!(step(&guardrails, memory, 71, few, more).applied, more);
}

#[test]
fn a_rate_limit_counts_changes_of_any_kind() {
    let limit = RateLimit { changes: 2, per: secs(60) };
    let guardrails =
        GuardrailsConfig { rate_limit: Some(limit), ..GuardrailsConfig::bounds_only(bounds()) }
            .build()
            .unwrap();
    let memory = &mut GuardrailMemory::default();
    let sizes = [allocation(3, 500, 256), allocation(4, 500, 256), allocation(4, 750, 256)];
    assert!(step(&guardrails, memory, 0, sizes[0], sizes[1]).is_change());
    assert!(!step(&guardrails, memory, 10, sizes[1], sizes[1]).is_change());
    assert!(step(&guardrails, memory, 20, sizes[1], sizes[2]).is_change());
    let decision = step(&guardrails, memory, 30, sizes[2], sizes[0]);
    assert_eq!(words(&decision)[1], "held: at most 2 changes in 60s, for another 30s");
    assert!(!decision.is_change());
    assert!(step(&guardrails, memory, 60, sizes[2], sizes[0]).is_change());
    assert!(!step(&guardrails, memory, 61, sizes[0], sizes[1]).is_change());
}

#[test]
fn limits_under_which_nothing_moves_are_refused() {
    let check = |config: GuardrailsConfig, expect: &str| {
        assert_eq!(config.build().unwrap_err().to_string(), expect);
    };
    let base = GuardrailsConfig::bounds_only(bounds());
    let none = ReplicaStep { absolute: 0, relative: Fraction::ZERO };
    check(
        GuardrailsConfig { replica_step: Step { up: Some(none), down: None }, ..base },
        "replica step must be above 0 (leave it out for no limit), got 0",
    );
    let rate_limit = Some(RateLimit { changes: 1, per: SimDuration::ZERO });
    check(
        GuardrailsConfig { rate_limit, ..base },
        "time of the rate limit must be above 0 (leave it out for no limit), got 0ns",
    );
}

prop_compose! {
    fn any_allocation()(
        replicas in 0u32..=40, cpu in 1u64..=4000, memory in 1u64..=4096,
    ) -> Allocation {
        allocation(replicas, cpu, memory)
    }
}

prop_compose! {
    fn any_guardrails()(
        absolute in 1u32..5, percent in 0u32..200, cpu in 1u64..2000, memory in 1u64..1024,
        has_step in any::<[bool; 6]>(), rate in prop::option::of((1u32..4, 1u64..100)),
        up in 0u64..60, down in 0u64..60,
    ) -> Guardrails {
        let replica_step = ReplicaStep { absolute, relative: Fraction::from_percent(percent) };
        let (cpu, memory) = (Millicores::new(cpu), Bytes::from_mib(memory));
        GuardrailsConfig {
            bounds: bounds(),
            replica_step: Step {
                up: has_step[0].then_some(replica_step), down: has_step[1].then_some(replica_step),
            },
            cpu_step: Step { up: has_step[2].then_some(cpu), down: has_step[3].then_some(cpu) },
            memory_step: Step {
                up: has_step[4].then_some(memory), down: has_step[5].then_some(memory),
            },
            rate_limit: rate.map(|(changes, per)| RateLimit { changes, per: secs(per) }),
            scale_up_cool_down: secs(up),
            scale_down_cool_down: secs(down),
        }
        .build()
        .unwrap()
    }
}

/// Whether a move stays within the step that the limits give it.
fn within_step<T>(from: u64, to: u64, step: &Step<T>, size: impl Fn(&T) -> u64) -> bool {
    let limit = if to > from { &step.up } else { &step.down };
    limit.as_ref().is_none_or(|limit| from.abs_diff(to) <= size(limit))
}

proptest! {
    #[test]
    fn what_is_applied_is_inside_the_bounds_and_no_step_is_too_large(
        guardrails in any_guardrails(), start in any_allocation(),
        wishes in prop::collection::vec((0u64..30, any_allocation()), 1..12),
    ) {
        let config = guardrails.config();
        let mut memory = GuardrailMemory::default();
        let mut from = start;
        let mut seconds = 0;
        let mut changes = Vec::new();
        for (wait, wanted) in wishes {
            seconds += wait;
            let decision = step(&guardrails, &mut memory, seconds, from, wanted);
            let (base, to) = (config.bounds.clamp(&from), decision.applied);
            prop_assert!(config.bounds.contains(&to));
            prop_assert!(!decision.reasons.is_empty());
            let replicas_in_step =
                within_step(base.replicas.into(), to.replicas.into(), &config.replica_step, |step| {
                    let relative = f64::from(base.replicas) * step.relative.ratio();
                    u64::from(step.absolute).max(relative as u64)
                });
            let (cpu, memory_bytes) = (base.cpu.millicores(), base.memory.bytes());
            let cpu_in_step =
                within_step(cpu, to.cpu.millicores(), &config.cpu_step, |step| step.millicores());
            let to_bytes = to.memory.bytes();
            let memory_in_step =
                within_step(memory_bytes, to_bytes, &config.memory_step, |step| step.bytes());
            prop_assert!(replicas_in_step && cpu_in_step && memory_in_step, "{}", decision);
            if decision.is_change() {
                changes.push(at(seconds));
            }
            let is_free = decision.is_change() && from == base;
            if let Some(limit) = config.rate_limit.filter(|_| is_free) {
                let recent = changes.iter().filter(|change| **change + limit.per > at(seconds));
                prop_assert!(recent.count() <= limit.changes as usize);
            }
            prop_assert!(decision.reasons.len() > 1 || to == wanted, "an unexplained limit");
            from = to;
        }
    }

    #[test]
    fn a_legal_proposal_is_left_alone_and_what_was_applied_is_legal(
        from in any_allocation(), wanted in any_allocation(),
    ) {
        let guardrails = limited().build().unwrap();
        let once = step(&guardrails, &mut GuardrailMemory::default(), 0, from, wanted).applied;
        let again = step(&guardrails, &mut GuardrailMemory::default(), 0, from, once);
        prop_assert_eq!(again.applied, once);
        prop_assert_eq!(again.reasons.len(), 1);
    }

    #[test]
    fn one_number_that_is_none_holds_everything(
        guardrails in any_guardrails(), from in any_allocation(), dimension in 0usize..3,
        broken in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), -9.0..-1e-9],
    ) {
        let mut numbers = [5.0, 0.5, 1e8];
        numbers[dimension] = broken;
        let [replicas, cpu_cores, memory_bytes] = numbers;
        let mut policy = Scripted(Proposal { replicas, cpu_cores, memory_bytes, reasons: vec![] });
        let obs = Observation { allocation: from, ..observation(0, 0, 0.0) };
        let mut memory = GuardrailMemory::default();
        let decision = decide(&mut policy, &guardrails, &mut memory, &obs);
        prop_assert_eq!(decision.applied, guardrails.config().bounds.clamp(&from));
        prop_assert_eq!(memory.refusals(), 1);
    }
}
