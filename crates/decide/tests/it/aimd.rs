//! Additive increase, multiplicative decrease.

use homeostat_core::{Bytes, Fraction, Millicores};
use homeostat_decide::{Aimd, AimdConfig, Observation, Policy};

use crate::observations::{millis, observation, replicas_of, words_of};

/// The SLO is 640 ms here.
fn at_latency(latency_millis: u64, replicas: u32) -> Observation {
    Observation { latency: Some(millis(latency_millis)), ..observation(0, replicas, 0.5) }
}

fn aimd() -> Aimd {
    AimdConfig::default().build().unwrap()
}

#[test]
fn a_miss_adds_one_replica_however_many_there_are() {
    assert_eq!(replicas_of(&mut aimd(), &at_latency(641, 1)), 2.0);
    assert_eq!(replicas_of(&mut aimd(), &at_latency(9000, 50)), 51.0);
    assert_eq!(
        words_of(&mut aimd(), &at_latency(812, 1)),
        "p99 812ms is above the SLO of 640ms; increased by 1 replica"
    );
}

#[test]
fn three_easy_observations_in_a_row_take_a_tenth_away() {
    let mut aimd = aimd();
    let mut after = |latency| replicas_of(&mut aimd, &at_latency(latency, 40));
    let seen = [320, 320, 321, 320, 320, 320, 320].map(&mut after);
    assert_eq!(seen, [40.0, 40.0, 40.0, 40.0, 40.0, 36.0, 40.0]);
}

#[test]
fn few_replicas_become_fewer_but_the_last_one_stays() {
    let config = AimdConfig { calm_observations: 1, ..AimdConfig::default() };
    let mut aimd = config.build().unwrap();
    let idle = |replicas| Observation { latency: None, ..at_latency(0, replicas) };
    let seen = [3, 2, 1, 0].map(|replicas| replicas_of(&mut aimd, &idle(replicas)));
    assert_eq!(seen, [2.0, 1.0, 1.0, 0.0]);
}

#[test]
fn every_dimension_with_an_increase_moves_both_ways() {
    let config = AimdConfig {
        replica_increase: 0,
        cpu_increase: Millicores::new(125),
        memory_increase: Bytes::from_mib(64),
        decrease_factor: Fraction::from_percent(50),
        calm_observations: 1,
        ..AimdConfig::default()
    };
    let mut aimd = config.build().unwrap();
    let mut check = |latency, cores, mebibytes: u64| {
        let proposal = aimd.propose(&at_latency(latency, 4));
        assert_eq!((proposal.replicas, proposal.cpu_cores), (4.0, cores));
        assert_eq!(proposal.memory_bytes, (mebibytes << 20) as f64);
    };
    check(700, 1.125, 576);
    check(100, 0.5, 256);
}

#[test]
fn settings_under_which_nothing_moves_are_refused() {
    let check = |config: AimdConfig, expect: &str| {
        assert_eq!(config.build().unwrap_err().to_string(), expect);
    };
    check(
        AimdConfig { replica_increase: 0, ..AimdConfig::default() },
        "increase must be above 0 in one dimension at least, got 0",
    );
    check(
        AimdConfig { decrease_factor: Fraction::ONE, ..AimdConfig::default() },
        "decrease_factor must be above 0% and below 100%, got 100%",
    );
}
