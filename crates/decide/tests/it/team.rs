//! What a member of a team sees of the others.

use std::collections::BTreeMap;

use homeostat_core::{
    Bounds, Bytes, ControlSchema, Fraction, Millicores, SimDuration, SimTime, Slo,
};
use homeostat_decide::{
    Allocation, AllocationBounds, Features, GlobalState, MemberState, Observation, PodInterface,
    ReplicaSample, ServiceTime, SetPoints, TeamMember, TeamSnapshot, Teams,
};
use proptest::prelude::*;

fn at(seconds: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_secs(seconds)
}

fn bounds() -> AllocationBounds {
    AllocationBounds::with_dissertation_cpu(
        Bounds::try_new(1, 10).unwrap(),
        Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(512)).unwrap(),
    )
}

/// Pods of half a core that use a quarter of it, with 100 ms of CPU for each request.
fn observed(replicas: u32, arrivals_per_s: f64) -> Observation {
    let allocation =
        Allocation { replicas, cpu: Millicores::new(500), memory: Bytes::from_mib(256) };
    let slo = Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(250)).unwrap();
    let replica = ReplicaSample { cpu_cores: Some(0.125), ..ReplicaSample::ready(SimTime::ZERO) };
    Observation {
        arrivals_per_s,
        concurrency: arrivals_per_s * 0.1,
        replicas: vec![replica; replicas as usize],
        service_time: Some(ServiceTime {
            cpu: SimDuration::from_millis(100),
            io: SimDuration::ZERO,
        }),
        ..Observation::new(at(0), allocation, slo)
    }
}

fn state(replicas: u32, arrivals_per_s: f64) -> MemberState {
    TeamMember::new(bounds()).observe(&observed(replicas, arrivals_per_s))
}

fn team(members: &[(&'static str, MemberState)]) -> TeamSnapshot<&'static str> {
    TeamSnapshot::new(members.iter().copied().collect())
}

#[test]
fn a_member_sees_means_over_the_others_and_not_itself() {
    let team = team(&[("a", state(10, 80.0)), ("b", state(2, 10.0)), ("c", state(4, 30.0))]);
    let seen = team.others(&"a");
    assert_eq!((seen.utilization.others, seen.set_points.others), (2, 2));
    // Load in fours: 1 and 3 requests in service.
    let means = seen.set_points.means();
    assert!((means[5] - 0.5).abs() < 1e-6 && (means[12] - 0.25).abs() < 1e-6, "{means:?}");
    // Replicas over the most.
    assert!((means[1] - 0.3).abs() < 1e-6, "{means:?}");
    // CPU use of a quarter.
    assert!((seen.utilization.means()[5] - 0.25).abs() < 1e-6);
}

#[test]
fn a_member_whose_load_is_not_known_is_seen_by_policies_of_steps_only() {
    let team = team(&[("a", state(2, 10.0)), ("b", state(2, f64::NAN))]);
    let seen = team.others(&"a");
    assert_eq!((seen.utilization.others, seen.set_points.others), (1, 0));
    assert_eq!(seen.set_points.means(), [0.0; GlobalState::FEATURES]);
}

/// Others that a member of a team sees, as far as their states are at most a minute old.
fn seen(teams: &Teams<&'static str, u8>, now: u64, team: u8, member: &'static str) -> usize {
    let snapshot = teams.snapshot(at(now), SimDuration::from_secs(60));
    snapshot.get(&team).map_or(0, |team| team.others(&member).utilization.others)
}

#[test]
fn a_member_that_was_not_observed_lately_leaves_and_comes_back() {
    let mut teams = Teams::default();
    teams.report("a", 1, at(100), state(2, 10.0));
    teams.report("b", 1, at(40), state(2, 10.0));
    assert_eq!((seen(&teams, 100, 1, "a"), seen(&teams, 101, 1, "a")), (1, 0));
    teams.report("b", 1, at(101), state(2, 10.0));
    assert_eq!(seen(&teams, 101, 1, "a"), 1);
    teams.retain(|member| *member == "a");
    assert_eq!(seen(&teams, 101, 1, "a"), 0);
}

#[test]
fn a_member_sees_its_own_team_only_and_may_change_to_another() {
    let mut teams = Teams::default();
    for (member, team) in [("a", 1), ("b", 1), ("c", 2), ("d", 2), ("e", 2)] {
        teams.report(member, team, at(0), state(2, 10.0));
    }
    assert_eq!((seen(&teams, 0, 1, "a"), seen(&teams, 0, 2, "c")), (1, 2));
    teams.report("b", 2, at(1), state(2, 10.0));
    assert_eq!((seen(&teams, 1, 1, "a"), seen(&teams, 1, 2, "c")), (0, 3));
}

#[test]
fn the_step_of_a_member_is_the_change_of_its_allocation() {
    let mut member = TeamMember::new(bounds());
    let mut step = |replicas: u32, millicores: u64| {
        let mut obs = observed(replicas, 10.0);
        obs.allocation.cpu = Millicores::new(millicores);
        let means = team(&[("b", member.observe(&obs))]).others(&"a").utilization.means();
        (means[2], means[3])
    };
    assert_eq!(step(2, 500), (0.0, 0.0));
    assert_eq!(step(3, 500), (0.0, 1.0));
    assert_eq!(step(3, 375), (-1.0, 0.0));
}

#[test]
fn a_policy_of_a_team_reads_the_others_in_its_own_terms() {
    let team = team(&[("a", state(2, 10.0)), ("b", state(6, 60.0))]);
    let mut obs = observed(2, 10.0);
    obs.team = Some(team.others(&"a"));
    let read = |features, action| {
        let schema = ControlSchema { features, action, bounds: Vec::new() };
        let mut interface = PodInterface::for_schema(&schema, bounds()).unwrap();
        let mut read = Vec::new();
        interface.observe(&obs, &mut read);
        assert_eq!(read.len(), schema.features.features.len());
        for (value, field) in read.iter().zip(&schema.features.features) {
            let range = field.low.unwrap()..=field.high.unwrap();
            assert!(range.contains(value), "{} is {value}", field.name);
        }
        read
    };
    let set_points = read(SetPoints::team_feature_schema(), SetPoints::action_schema());
    assert_eq!(set_points[SetPoints::COUNT..], obs.team.unwrap().set_points.means());
    let steps = read(Features::team_schema(), homeostat_decide::ScalingAction::schema());
    assert_eq!(steps[Features::COUNT..], obs.team.unwrap().utilization.means());
}

proptest! {
    #[test]
    fn what_is_seen_does_not_depend_on_the_order_of_reports(
        loads in prop::collection::vec((1_u32..10, 0.0_f64..100.0), 1..20)
    ) {
        let mut forth = Teams::default();
        let mut back = Teams::default();
        for (number, (replicas, rate)) in loads.iter().enumerate() {
            forth.report(number, (), at(0), state(*replicas, *rate));
        }
        for (number, (replicas, rate)) in loads.iter().enumerate().rev() {
            back.report(number, (), at(0), state(*replicas, *rate));
        }
        let hour = SimDuration::from_secs(3600);
        let (forth, back) = (forth.snapshot(at(1), hour), back.snapshot(at(1), hour));
        for number in 0..loads.len() {
            prop_assert_eq!(forth[&()].others(&number), back[&()].others(&number));
        }
    }
}

#[test]
fn an_empty_team_is_seen_as_zeros() {
    let team: TeamSnapshot<&str> = TeamSnapshot::new(BTreeMap::new());
    assert_eq!(team.others(&"a").utilization.means(), [0.0; GlobalState::FEATURES]);
}
