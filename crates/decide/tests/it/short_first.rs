//! Square-root staffing, with and without short requests first.

use homeostat_core::Millicores;
use homeostat_decide::{Observation, Policy, ServiceTime, ShortFirstConfig};

use crate::observations::{millis, observation, replicas_of};

fn policy(cpu_millis: u64, config: ShortFirstConfig) -> Box<dyn Policy> {
    let service = Some(ServiceTime { cpu: millis(cpu_millis), io: millis(0) });
    Box::new(ShortFirstConfig { service, ..config }.build().unwrap())
}

fn at(arrivals_per_s: f64) -> Observation {
    Observation { arrivals_per_s, ..observation(0, 1, 0.5) }
}

#[test]
fn short_requests_weigh_more_within_the_range_of_weights() {
    let weight = |cpu_millis| {
        let cores = policy(cpu_millis, ShortFirstConfig::default()).propose(&at(1.0)).cpu_cores;
        Millicores::new((cores * 1000.0).round() as u64)
    };
    assert_eq!(weight(100), Millicores::new(1000));
    assert_eq!(weight(400), Millicores::new(250));
    assert_eq!(weight(5), Millicores::new(2000));
    assert_eq!(weight(10_000), Millicores::new(125));
}

#[test]
fn staffing_alone_gives_everybody_a_core() {
    let mut policy = policy(400, ShortFirstConfig::staffing());
    assert_eq!(policy.propose(&at(10.0)).cpu_cores, 1.0);
    // A load of four and two roots of it.
    assert_eq!(replicas_of(policy.as_mut(), &at(10.0)), 8.0);
}
