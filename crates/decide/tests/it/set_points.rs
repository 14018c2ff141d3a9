//! Agents that name a weight and spare replicas.

use homeostat_core::{Bounds, Bytes, Millicores, Persist, SimDuration, Snapshot};
use homeostat_decide::{
    Allocation, AllocationBounds, Guards, Observation, PreparedProposal, Propose, ServiceTime,
    SetPoint, SetPoints, decide,
};
use proptest::prelude::*;

use crate::observations::observation as of;

fn observation() -> Observation {
    let service =
        ServiceTime { cpu: SimDuration::from_millis(200), io: SimDuration::from_millis(50) };
    Observation { service_time: Some(service), ..of(0, 2, 0.5) }
}

fn bounds() -> AllocationBounds {
    let memory = Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(4096)).unwrap();
    AllocationBounds::with_dissertation_cpu(Bounds::try_new(1, 12).unwrap(), memory)
}

fn points() -> SetPoints {
    SetPoints::new(bounds())
}

/// Shows a window and carries an action out.
fn allocate(points: &mut SetPoints, action: SetPoint, obs: &Observation) -> Allocation {
    points.observe(obs);
    points.propose(action, &obs.allocation).setting().unwrap()
}

fn at_rate(arrivals_per_s: f64) -> Observation {
    Observation { arrivals_per_s, ..observation() }
}

#[test]
fn replicas_are_the_load_and_its_root_to_spare_and_the_weight_is_as_named() {
    // 16 requests a second of 250 ms each keep four replicas busy; twice the root of four more.
    let wanted = allocate(&mut points(), SetPoint::from_choices(1, 3), &at_rate(16.0));
    assert_eq!((wanted.replicas, wanted.cpu), (8, Millicores::new(250)));
    assert_eq!(wanted.memory, observation().allocation.memory, "memory stays");
}

#[test]
fn a_quiet_window_takes_nothing_away_and_three_of_them_do() {
    let mut points = points();
    let busy = SetPoint::from_choices(2, 3);
    let mut replicas = allocate(&mut points, busy, &at_rate(16.0)).replicas;
    let mut seen = vec![replicas];
    for _ in 0..3 {
        let mut obs = at_rate(4.0);
        obs.allocation.replicas = replicas;
        replicas = allocate(&mut points, busy, &obs).replicas;
        seen.push(replicas);
    }
    assert_eq!(seen, [8, 8, 8, 3]);
}

#[test]
fn before_any_arrival_rate_the_replicas_stay() {
    let obs = at_rate(f64::NAN);
    let wanted = allocate(&mut points(), SetPoint::from_choices(4, 4), &obs);
    assert_eq!(wanted.replicas, obs.allocation.replicas);
}

#[test]
fn a_desk_that_was_saved_goes_on_as_it_was() {
    let mut first = points();
    allocate(&mut first, SetPoint::from_choices(0, 4), &at_rate(16.0));
    let mut saved = Snapshot::default();
    first.save("points", &mut saved);
    let mut second = points();
    second.load("points", &saved).expect("its own state");
    assert_eq!(first, second);
}

#[test]
fn without_a_profile_the_cpu_time_of_a_request_is_estimated_from_usage() {
    // Two replicas use half a core each for five requests a second: 200 ms of CPU a request.
    let unprofiled = Observation { service_time: None, ..at_rate(5.0) };
    let mut encoder = points();
    encoder.observe(&unprofiled);
    let wanted = encoder.propose(SetPoint::from_choices(1, 1), &unprofiled.allocation);
    assert_eq!(wanted.replicas, 2.0);
}

proptest! {
    #[test]
    fn features_and_allocations_stay_inside_whatever_is_observed(
        rate in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), 0.0..1e9],
        concurrency in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), 0.0..1e9],
        waiting in 0u64..u64::MAX,
        choices in (0usize..9, 0usize..9),
    ) {
        let bounds: AllocationBounds = bounds();
        let obs = Observation { concurrency, waiting, ..at_rate(rate) };
        let mut points = points();
        for (feature, (least, most)) in points.observe(&obs).iter().zip(SetPoints::RANGES) {
            prop_assert!((least..=most).contains(feature), "{feature}");
        }
        let action = SetPoint::from_choices(choices.0, choices.1);
        let decided = {
            let proposal = points.propose(action, &obs.allocation);
            let mut guards = Guards::bounds_only(bounds).unwrap();
            *decide(&mut PreparedProposal::new(proposal), &mut guards, &obs).applied()
        };
        prop_assert!(bounds.contains(&decided));
    }
}
