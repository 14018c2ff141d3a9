//! Decisions take effect after the times of Table 3.5, and only `decide()` makes them.

use homeostat_core::SeedTree;
use homeostat_decide::{
    ContainerProposal, ContainerScaling, Guards, GuardsConfig, Plant, PreparedProposal, Propose,
    decide,
};
use homeostat_sim_mesh::MeshPlant;

use crate::setup::{give_replicas, mesh, plan};

#[test]
fn a_replica_starts_cold_on_a_new_node_and_warm_where_it_ran_before() {
    let plan = plan(|config| config.topology = "hotel-reservation".to_owned());
    let mut mesh = mesh(&plan, 2);
    let service = mesh.topology().service("search").unwrap();
    assert_eq!(give_replicas(&mut mesh, service, 2), 2);
    mesh.run_for(1.0);
    assert_eq!(mesh.ready_replicas(service).len(), 1, "a cold start takes about two seconds");
    mesh.run_for(3.0);
    assert_eq!(mesh.ready_replicas(service).len(), 2);
    // All nodes have run it, or the roomiest one has: the next start there is warm.
    assert_eq!(give_replicas(&mut mesh, service, 1), 1);
    mesh.run_for(1.0);
    assert_eq!(mesh.ready_replicas(service).len(), 1);
    give_replicas(&mut mesh, service, 2);
    mesh.run_for(0.2);
    assert_eq!(mesh.ready_replicas(service).len(), 2, "a warm start takes about 46 ms");
}

#[test]
fn replicas_stop_where_no_node_has_free_cpu_and_one_always_stays() {
    let plan = plan(|config| {
        config.topology = "hotel-reservation".to_owned();
        (config.nodes, config.cores_per_node) = (2, 10.0);
    });
    let mut mesh = mesh(&plan, 2);
    let granted = give_replicas(&mut mesh, 0, 1000);
    assert!((2..10).contains(&granted), "{granted}");
    assert_eq!(give_replicas(&mut mesh, 0, 0), 1);
    mesh.run_for(1.0);
    assert!(mesh.conservation().holds());
}

#[test]
fn the_plant_applies_what_was_decided_and_shows_it() {
    let plan = plan(|_| ());
    let mut plant = MeshPlant::new(&plan, &SeedTree::new(4)).unwrap();
    plant.advance().unwrap();
    let service = plan.topology().service("user-service").unwrap();
    let seen = plant.observe(service).clone();
    let use_ = seen.utilization();
    assert!(use_.iter().take(3).all(|part| (0.0..=1.0).contains(part)), "{use_:?}");
    assert!(seen.arrivals_per_s > 0.0 && (0.0..=1.0).contains(&seen.slo_maintenance));
    let mut wanted = ContainerProposal::keep(&seen.setting);
    wanted.limits[0] = 1e12;
    wanted.replicas = 2.0;
    let config = GuardsConfig::bounds_only(*plan.bounds(service));
    let mut guards = Guards::<ContainerScaling>::try_new(config).unwrap();
    let decision = decide(&mut PreparedProposal::new(wanted), &mut guards, &seen);
    let granted = plant.apply(service, &decision).unwrap();
    assert_eq!(granted.limits[0], plan.bounds(service).high().limits[0]);
    assert_eq!(granted.replicas, 2);
    plant.advance().unwrap();
    assert_eq!(plant.observe(service).setting, granted);
}
