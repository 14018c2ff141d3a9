//! What is restored goes on as if it had never stopped.

use homeostat_core::{Bytes, Persist, SimTime, Snapshot};
use homeostat_decide::{
    CoolDownConfig, Features, FixedConfig, Guards, GuardsConfig, HpaConfig, HpaMetric,
    HpaVpaConfig, JointConfig, KpaConfig, Observation, PolicyConfig, RateLimitConfig,
    ReplicaSample, StepLimit, StepSize, VpaConfig, decide,
};
use proptest::prelude::*;

use crate::observations::{bounds, millis, observation, secs};

/// Every policy by name, and those whose memory only shows on a faster clock.
fn policies() -> Vec<PolicyConfig> {
    let mut configs: Vec<_> =
        PolicyConfig::names().iter().map(|name| PolicyConfig::by_name(name).unwrap()).collect();
    let vpa = VpaConfig::scaled(1440.0).unwrap();
    configs.push(PolicyConfig::Vpa(vpa));
    configs.push(PolicyConfig::HpaVpa(HpaVpaConfig { vpa, ..HpaVpaConfig::default() }));
    let joint = JointConfig { min_replicas: 2, max_replicas: 4, vpa, ..JointConfig::default() };
    configs.push(PolicyConfig::Joint(joint));
    let mut hpa = HpaConfig::default();
    hpa.metrics.push(HpaMetric::Concurrency { target: 2.0 });
    hpa.behavior.up.stabilization = secs(20);
    hpa.behavior.down.stabilization = secs(40);
    configs.push(PolicyConfig::Hpa(hpa));
    let kpa = KpaConfig { scale_down_delay: secs(40), ..KpaConfig::with_concurrency(1.0) };
    configs.push(PolicyConfig::Kpa(kpa));
    configs
}

fn guards() -> Guards {
    GuardsConfig {
        steps: vec![StepLimit { up: Some(StepSize::absolute(3)), down: None }],
        rate_limit: Some(RateLimitConfig { changes: 3, per: secs(60) }),
        cool_down: CoolDownConfig { up: secs(10), down: secs(30) },
        ..GuardsConfig::bounds_only(bounds())
    }
    .build()
    .unwrap()
}

prop_compose! {
    fn any_replica()(
        // Few starts, so that the same replicas are seen again.
        started in prop::sample::select(vec![0, 99_990, 100_090]), is_ready in any::<bool>(),
        served_throughout in any::<Option<bool>>(),
        cpu_cores in prop::option::of(0.0..2.0), memory in prop::option::of(1u64..900),
    ) -> ReplicaSample {
        ReplicaSample {
            started: SimTime::ZERO + secs(started), is_ready, served_throughout, cpu_cores,
            cpu_request: None,
            memory: memory.map(Bytes::from_mib),
        }
    }
}

prop_compose! {
    fn any_observation()(
        wait in 1u64..40, replicas in prop::collection::vec(any_replica(), 0..6),
        latency in prop::option::of(20u64..1500), arrivals_per_s in 0.0..200.0,
        concurrency in 0.0..30.0, oom_kills in 0u32..2,
    ) -> (u64, Observation) {
        let latency = latency.map(millis);
        let base = observation(0, 1, 0.0);
        (wait, Observation { latency, arrivals_per_s, concurrency, oom_kills, replicas, ..base })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_restored_policy_and_its_guards_decide_the_same(
        observations in prop::collection::vec(any_observation(), 2..30), saved_after in 0usize..20,
    ) {
        for config in policies() {
            let mut policy = config.clone().build().unwrap();
            let mut guards = guards();
            let mut features = Features::new(bounds());
            let mut restored = None;
            let mut now = crate::observations::at(100);
            let mut allocation = crate::observations::allocation(3, 500, 512);
            for (index, (wait, obs)) in observations.iter().enumerate() {
                now += secs(*wait);
                let obs = Observation { now, allocation, ..obs.clone() };
                if index == saved_after.min(observations.len() - 1) {
                    let mut snapshot = Snapshot::default();
                    policy.save("policy", &mut snapshot);
                    guards.save("guards", &mut snapshot);
                    features.save("features", &mut snapshot);
                    let mut fresh = config.clone().build().unwrap();
                    fresh.load("policy", &snapshot).unwrap();
                    let mut fresh_guards = crate::persistence::guards();
                    fresh_guards.load("guards", &snapshot).unwrap();
                    let mut fresh_features = Features::new(bounds());
                    fresh_features.load("features", &snapshot).unwrap();
                    let mut again = Snapshot::default();
                    fresh.save("policy", &mut again);
                    fresh_guards.save("guards", &mut again);
                    fresh_features.save("features", &mut again);
                    prop_assert_eq!(again, snapshot);
                    restored = Some((fresh, fresh_guards, fresh_features));
                }
                let decision = decide(policy.as_mut(), &mut guards, &obs);
                let values = features.observe(&obs);
                if let Some((policy, guards, features)) = &mut restored {
                    let other = decide(policy.as_mut(), guards, &obs);
                    prop_assert_eq!(&other, &decision);
                    prop_assert_eq!(features.observe(&obs), values);
                }
                allocation = *decision.applied();
            }
        }
    }
}

#[test]
fn a_snapshot_of_another_shape_is_refused_by_name() {
    let mut vpa = PolicyConfig::by_name("vpa").unwrap().build().unwrap();
    let mut snapshot = Snapshot::default();
    vpa.save("policy", &mut snapshot);
    snapshot.put_f64("policy/cpu/weights", [1.0]);
    let error = vpa.load("policy", &snapshot).unwrap_err().to_string();
    assert!(error.starts_with("snapshot array `policy/cpu/weights` is 1 f64"), "{error}");
}

#[test]
fn a_fixed_allocation_is_proposed_whatever_is_observed() {
    let allocation = crate::observations::allocation(7, 250, 128);
    let mut fixed = FixedConfig { allocation: Some(allocation) }.build().unwrap();
    let mut guards = Guards::bounds_only(bounds()).unwrap();
    let decision = decide(&mut fixed, &mut guards, &observation(0, 2, 1.0));
    assert_eq!(*decision.applied(), allocation);
}
