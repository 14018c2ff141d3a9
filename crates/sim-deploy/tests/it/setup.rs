//! A cluster for tests, and decisions for it.

use homeostat_core::{Bounds, Bytes, Fraction, Millicores, SimDuration, SimTime, Slo, Stream};
use homeostat_decide::{
    Allocation, AllocationBounds, Guards, Observation, PreparedProposal, Proposal, decide,
};
use homeostat_load::LoadShape;
use homeostat_sim_deploy::{Application, Cluster, ClusterConfig, DeploymentSetup, Resize, Source};

pub(crate) fn config() -> ClusterConfig {
    ClusterConfig {
        nodes: 3,
        cores: 4.0,
        memory: Bytes::from_mib(8 * 1024),
        resize: Resize::InPlace,
        cpu_limit_over_request: 1.0,
        memory_limit_over_request: 1.0,
        create: SimDuration::from_secs(2),
        start_cpu: SimDuration::from_secs(1),
        grace: SimDuration::from_secs(30),
        timeout: SimDuration::from_secs(10),
        concurrency: 32,
    }
}

pub(crate) fn allocation(replicas: u32, millicores: u64, mebibytes: u64) -> Allocation {
    Allocation { replicas, cpu: Millicores::new(millicores), memory: Bytes::from_mib(mebibytes) }
}

pub(crate) fn slo() -> Slo {
    Slo::try_new(Fraction::from_percent(99), SimDuration::from_millis(200)).unwrap()
}

/// A Deployment of the application under a Poisson load.
pub(crate) fn deployment(
    application: &str,
    allocation: Allocation,
    per_second: f64,
    seed: u64,
) -> DeploymentSetup {
    let shape = LoadShape::Poisson { per_second };
    DeploymentSetup {
        application: Application::parse(application).unwrap(),
        slo: slo(),
        allocation,
        source: Source::shape(&shape, Stream::from_seed(seed)).unwrap(),
        needs: Stream::from_seed(seed + 1),
    }
}

/// Decides for this allocation, whatever is observed.
pub(crate) fn set(cluster: &mut Cluster, number: usize, from: Allocation, to: Allocation) {
    let bounds = AllocationBounds {
        replicas: Bounds::try_new(0, 1000).unwrap(),
        cpu: Bounds::try_new(Millicores::new(1), Millicores::new(100_000)).unwrap(),
        memory: Bounds::try_new(Bytes::from_mib(1), Bytes::from_mib(1 << 20)).unwrap(),
    };
    let mut guards = Guards::bounds_only(bounds).unwrap();
    let seen = Observation::new(cluster.now(), from, slo());
    let decision = decide(&mut PreparedProposal::new(Proposal::keep(&to)), &mut guards, &seen);
    assert_eq!(cluster.apply(number, &decision), to);
}

pub(crate) fn at(seconds: f64) -> SimTime {
    SimTime::from_nanos((seconds * 1e9) as u64)
}
