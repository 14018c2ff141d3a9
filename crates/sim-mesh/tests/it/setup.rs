//! Clusters for tests.

use std::sync::Arc;

use homeostat_core::{SeedTree, SimDuration};
use homeostat_decide::{
    ContainerBounds, ContainerLimits, ContainerObservation, ContainerProposal, ContainerScaling,
    Guards, GuardsConfig, PreparedProposal, Propose, SloStatus, decide,
};
use homeostat_load::LoadShape;
use homeostat_sim_mesh::{
    Demand, Interference, Mesh, MeshConfig, MeshPlan, MeshSetup, NodeSize, Topology,
};

/// One service on one node, with exponential demand of a millisecond and nothing else to wait for.
pub(crate) fn queue(cores: u32, threads: u32, per_second: f64) -> MeshSetup {
    let demand = Demand {
        cpu_us: 1000.0,
        memory_bytes_per_cpu_s: 0.0,
        working_set: 1.0,
        memory_stall: 0.0,
        disk_bytes: 0.0,
        response_bytes: 1.0,
        threads,
        connections: 1,
    };
    MeshSetup {
        topology: Arc::new(Topology::single(demand)),
        nodes: 1,
        node: NodeSize {
            cores: f64::from(cores),
            memory_bandwidth: 1e11,
            cache: 1e8,
            disk: 1e12,
            network: 1e12,
        },
        limits: vec![ContainerLimits {
            replicas: 1,
            limits: [
                u64::from(cores) * 1000,
                100_000_000_000,
                100_000_000,
                1_000_000_000_000,
                1_000_000_000_000,
            ],
        }],
        loads: vec![LoadShape::Poisson { per_second }],
        link: SimDuration::ZERO,
        max_queue: usize::MAX,
        timeout: SimDuration::from_secs(1000),
        interference: Interference::default(),
        record_every: 0,
    }
}

pub(crate) fn plan(change: impl FnOnce(&mut MeshConfig)) -> MeshPlan {
    let mut config = MeshConfig { oracle: true, ..MeshConfig::default() };
    change(&mut config);
    config.build().unwrap()
}

pub(crate) fn mesh(plan: &MeshPlan, seed: u64) -> Mesh {
    Mesh::new(plan.setup(), &SeedTree::new(seed)).unwrap()
}

/// Gives a service this setting by a decision, within bounds that allow nearly everything. Returns the
/// setting that it got.
pub(crate) fn give(mesh: &mut Mesh, service: usize, wanted: ContainerLimits) -> ContainerLimits {
    let low = ContainerLimits { replicas: 1, limits: [1; 5] };
    let high = ContainerLimits { replicas: u32::MAX, limits: [u64::MAX >> 1; 5] };
    let bounds = ContainerBounds::try_new(low, high).unwrap();
    let config = GuardsConfig::<ContainerScaling>::bounds_only(bounds);
    let obs = ContainerObservation {
        now: mesh.now(),
        window: SimDuration::from_secs(1),
        setting: setting_of(mesh, service),
        slo_maintenance: 1.0,
        slo_status: SloStatus::Unknown,
        arrivals_per_s: 0.0,
        workload_change: 1.0,
        request_mix: Vec::new(),
        usage: [0.0; 5],
    };
    let mut proposed = PreparedProposal::new(ContainerProposal::keep(&wanted));
    mesh.apply(service, &decide(&mut proposed, &mut Guards::try_new(config).unwrap(), &obs))
}

pub(crate) fn give_limits(mesh: &mut Mesh, service: usize, limits: [u64; 5]) {
    let setting = ContainerLimits { limits, ..setting_of(mesh, service) };
    give(mesh, service, setting);
}

/// Returns how many replicas there are then.
pub(crate) fn give_replicas(mesh: &mut Mesh, service: usize, replicas: u32) -> u32 {
    let setting = ContainerLimits { replicas, ..setting_of(mesh, service) };
    give(mesh, service, setting).replicas
}

fn setting_of(mesh: &Mesh, service: usize) -> ContainerLimits {
    ContainerLimits { replicas: mesh.replicas_of(service), limits: mesh.limits_of(service) }
}
