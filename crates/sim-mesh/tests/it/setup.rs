//! Clusters for tests.

use std::sync::Arc;

use homeostat_core::{SeedTree, SimDuration};
use homeostat_decide::ContainerLimits;
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
