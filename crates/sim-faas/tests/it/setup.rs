//! Small platforms for the tests.

use homeostat_core::{Bounds, Bytes, Fraction, Millicores, SeedTree, SimDuration, SimTime, Slo};
use homeostat_decide::{
    Allocation, AllocationBounds, Guards, Observation, PreparedProposal, Proposal, decide,
};
use homeostat_load::{Arrivals, LoadShape};
use homeostat_sim_faas::{
    Contention, FunctionId, FunctionProfile, FunctionSetup, Platform, PlatformConfig, Result,
    Scaling, Source, by_name,
};

pub(crate) fn seconds(seconds: f64) -> SimDuration {
    SimDuration::from_seconds(seconds).unwrap()
}

pub(crate) fn at(time: f64) -> SimTime {
    SimTime::ZERO + seconds(time)
}

/// A function whose every request takes exactly this much CPU and I/O.
pub(crate) fn exact(cpu_ms: u64, io_ms: u64) -> FunctionProfile {
    FunctionProfile {
        cpu: SimDuration::from_millis(cpu_ms),
        payload_sigma: 0.0,
        io: SimDuration::from_millis(io_ms),
        io_sigma: 0.0,
        ..by_name("primes").unwrap()
    }
}

pub(crate) fn allocation(replicas: u32, millicores: u64, mib: u64) -> Allocation {
    Allocation { replicas, cpu: Millicores::new(millicores), memory: Bytes::from_mib(mib) }
}

/// A function without load of its own, to which requests are sent one by one.
pub(crate) fn quiet(profile: FunctionProfile, allocation: Allocation) -> FunctionSetup {
    let slo = Slo::try_new(Fraction::from_percent(99), SimDuration::from_secs(1)).unwrap();
    FunctionSetup {
        profile,
        slo,
        isolated_latency: SimDuration::from_millis(800),
        allocation,
        scaling: Scaling::Managed,
        arrivals: None,
    }
}

pub(crate) fn with_load(setup: FunctionSetup, shape: &LoadShape, seed: u64) -> FunctionSetup {
    let arrivals = Arrivals::new(shape, SeedTree::new(seed).stream("arrivals")).unwrap();
    FunctionSetup { arrivals: Some(Source::Shape(arrivals)), ..setup }
}

pub(crate) fn ideal(nodes: usize, cores: f64, gib: u64) -> PlatformConfig {
    let config = PlatformConfig::uniform(nodes, cores, Bytes::from_mib(gib * 1024));
    PlatformConfig { contention: Contention::IDEAL, ..config }
}

pub(crate) fn platform(config: PlatformConfig) -> Platform {
    Platform::new(config, &SeedTree::new(1)).unwrap()
}

/// Latencies of a window in milliseconds at the median and the end.
pub(crate) fn latency_ms(platform: &mut Platform, id: FunctionId) -> (f64, f64) {
    let latency = platform.totals(id).latency;
    let ms = |part| latency.quantile(Fraction::from_percent(part)).unwrap().seconds() * 1e3;
    (ms(50), ms(100))
}

/// Gives a function an allocation, as a controller without limits would.
pub(crate) fn set(
    platform: &mut Platform,
    id: FunctionId,
    wanted: Allocation,
) -> Result<Allocation> {
    let bounds = AllocationBounds {
        replicas: Bounds::try_new(0, 1000).unwrap(),
        cpu: Bounds::try_new(Millicores::new(1), Millicores::new(1_000_000)).unwrap(),
        memory: Bounds::try_new(Bytes::new(1), Bytes::from_mib(1 << 20)).unwrap(),
    };
    let obs = Observation::new(platform.now(), platform.allocation(id), platform.slo(id));
    let mut guards = Guards::bounds_only(bounds).unwrap();
    let decision = decide(&mut PreparedProposal::new(Proposal::keep(&wanted)), &mut guards, &obs);
    platform.apply(id, &decision)
}
