//! Observations to start from.

use homeostat_core::{Bounds, Bytes, Fraction, Millicores, SimDuration, SimTime, Slo};
use homeostat_decide::{Allocation, AllocationBounds, Observation, Policy, ReplicaSample};

pub(crate) fn secs(seconds: u64) -> SimDuration {
    SimDuration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> SimDuration {
    SimDuration::from_millis(millis)
}

/// Time zero is long past in these tests, so that replicas can have started before.
pub(crate) fn at(seconds: u64) -> SimTime {
    SimTime::ZERO + secs(100_000 + seconds)
}

pub(crate) fn allocation(replicas: u32, millicores: u64, mebibytes: u64) -> Allocation {
    Allocation { replicas, cpu: Millicores::new(millicores), memory: Bytes::from_mib(mebibytes) }
}

/// A replica that has been ready for long.
pub(crate) fn replica(cpu_cores: f64, memory_mib: u64) -> ReplicaSample {
    ReplicaSample {
        started: SimTime::ZERO,
        is_ready: true,
        served_throughout: None,
        cpu_request: None,
        cpu_cores: Some(cpu_cores),
        memory: Some(Bytes::from_mib(memory_mib)),
    }
}

/// Replicas of one core and 512 MiB that each use this many cores and 100 MiB, well inside
/// an SLO of 640 ms.
pub(crate) fn observation(seconds: u64, replicas: u32, cpu_cores: f64) -> Observation {
    Observation {
        isolated_latency: millis(100),
        latency: Some(millis(100)),
        arrivals_per_s: 10.0,
        concurrency: 1.0,
        replicas: vec![replica(cpu_cores, 100); replicas as usize],
        ..Observation::new(
            at(seconds),
            allocation(replicas, 1000, 512),
            Slo::try_new(Fraction::from_percent(99), millis(640)).unwrap(),
        )
    }
}

pub(crate) fn bounds() -> AllocationBounds {
    AllocationBounds::with_dissertation_cpu(
        Bounds::try_new(0, 20).unwrap(),
        Bounds::try_new(Bytes::from_mib(64), Bytes::from_mib(2048)).unwrap(),
    )
}

/// The number of replicas a policy proposes.
pub(crate) fn replicas_of(policy: &mut dyn Policy, obs: &Observation) -> f64 {
    let proposal = policy.propose(obs);
    assert!(!proposal.reasons.is_empty());
    proposal.replicas
}

/// A policy's reasons in words.
pub(crate) fn words_of(policy: &mut dyn Policy, obs: &Observation) -> String {
    let reasons = policy.propose(obs).reasons;
    reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
