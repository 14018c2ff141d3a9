//! The features of Table 4.1.

use homeostat_core::{Bytes, Millicores, SimTime};
use homeostat_decide::{Features, Observation, ReplicaSample};
use proptest::prelude::*;

use crate::observations::{allocation, bounds, millis, observation, replica};

fn features_of(obs: &Observation) -> [f32; Features::COUNT] {
    Features::new(bounds()).observe(obs)
}

#[test]
fn each_feature_is_what_the_table_says() {
    let mut obs = observation(0, 5, 0.0);
    // 128 to 2048 shares are 125 to 2000 millicores; 64 to 2048 MiB; 0 to 20 replicas.
    obs.allocation = allocation(5, 500, 560);
    obs.replicas = vec![replica(0.1, 140), replica(0.4, 420)];
    obs.latency = Some(millis(1280));
    let mut features = Features::new(bounds());
    assert_eq!(features.observe(&obs), [0.5, 0.5, 0.5, 0.0, 0.2, 0.25, 0.25]);
    // Arrivals go from 10 to 40 and to 20 per second.
    obs.arrivals_per_s = 40.0;
    assert_eq!(features.observe(&obs)[3], 0.75);
    obs.arrivals_per_s = 20.0;
    assert_eq!(features.observe(&obs)[3], -0.5);
    obs.arrivals_per_s = 0.0;
    assert_eq!(features.observe(&obs)[3], -1.0);
    assert_eq!(features.observe(&obs)[3], 0.0);
}

#[test]
fn a_rate_that_is_no_number_neither_counts_nor_replaces_the_one_before() {
    let mut features = Features::new(bounds());
    let mut change = |arrivals_per_s| {
        features.observe(&Observation { arrivals_per_s, ..observation(0, 1, 0.5) })[3]
    };
    assert_eq!([10.0, f64::NAN, 40.0].map(&mut change), [0.0, 0.0, 0.75]);
}

#[test]
fn no_request_preserves_the_objective_and_no_replica_uses_nothing() {
    let obs = Observation { latency: None, replicas: vec![], ..observation(0, 0, 0.0) };
    assert_eq!(features_of(&obs)[..3], [1.0, 0.0, 0.0]);
}

#[test]
fn use_beyond_the_weight_counts_as_full() {
    assert_eq!(features_of(&observation(0, 2, 1.7))[1], 1.0);
}

fn any_float() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), 0.0..10.0]
}

prop_compose! {
    fn any_replica()(
        cpu_cores in prop::option::of(any_float()), memory in any::<Option<u64>>(),
    ) -> ReplicaSample {
        let memory = memory.map(Bytes::new);
        ReplicaSample {
            started: SimTime::ZERO,
            is_ready: true,
            served_throughout: None,
            cpu_request: None,
            cpu_cores,
            memory,
        }
    }
}

proptest! {
    #[test]
    fn every_feature_stays_in_its_range_whatever_is_observed(
        rates in prop::collection::vec(any_float(), 3),
        replicas in prop::collection::vec(any_replica(), 0..4),
        (count, cpu, memory) in any::<(u32, u64, u64)>(),
        latency in any::<Option<u64>>(),
    ) {
        let mut features = Features::new(bounds());
        let mut obs = observation(0, 0, 0.0);
        obs.replicas = replicas;
        obs.allocation.replicas = count;
        obs.allocation.cpu = Millicores::new(cpu);
        obs.allocation.memory = Bytes::new(memory);
        obs.latency = latency.map(homeostat_core::SimDuration::from_nanos);
        for rate in rates {
            obs.arrivals_per_s = rate;
            let values = features.observe(&obs);
            for (index, (low, high)) in Features::RANGES.into_iter().enumerate() {
                let (name, value) = (Features::NAMES[index], values[index]);
                prop_assert!((low..=high).contains(&value), "{} is {}", name, value);
            }
        }
    }
}
