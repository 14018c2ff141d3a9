//! Nothing is lost: requests, calls, resources.

use homeostat_anomalies::AnomalyKind;
use homeostat_core::{SimDuration, SimTime};
use homeostat_decide::ContainerResource;
use homeostat_sim_mesh::{Mesh, Topology};
use proptest::prelude::*;

use crate::setup::{give_limits, give_replicas, mesh, plan};

/// Random changes while requests pass: limits, replicas, anomalies.
fn disturb(mesh: &mut Mesh, draws: &[(u8, u8, u8)]) {
    let services = mesh.topology().services().len();
    for (what, service, amount) in draws {
        let service = usize::from(*service) % services;
        match what % 3 {
            0 => {
                let limits =
                    mesh.limits_of(service).map(|limit| limit * (1 + u64::from(*amount)) / 64);
                give_limits(mesh, service, limits.map(|limit| limit.max(1_000)));
            }
            1 => {
                give_replicas(mesh, service, u32::from(amount % 6));
                assert!(mesh.replicas_of(service) >= 1);
            }
            _ => {
                let kind = AnomalyKind::ALL[usize::from(*amount) % 7];
                let replica = mesh.ready_replicas(service)[0];
                let length = SimDuration::from_millis(u64::from(*amount));
                mesh.inject(kind, replica, f64::from(*amount) / 255.0, length).unwrap();
            }
        }
        let before = mesh.now();
        mesh.run_for(0.05);
        let length = mesh.now().saturating_since(before);
        for window in mesh.close_service_windows(length) {
            assert!(window.usage.iter().all(|amount| *amount >= -1e-6), "{window:?}");
        }
        assert!(mesh.conservation().holds(), "{:?}", mesh.conservation());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_request_and_call_is_over_or_inside_whatever_changes(
        topology in 0usize..4,
        draws in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 1..20),
    ) {
        let name = Topology::names().nth(topology).unwrap();
        let plan = plan(|config| {
            config.topology = name.to_owned();
            config.nodes = 3;
            config.cores_per_node = 16.0;
            config.max_queue = 20;
        });
        let mut mesh = mesh(&plan, 11);
        disturb(&mut mesh, &draws);
    }
}

#[test]
fn an_overloaded_service_refuses_calls_and_the_client_learns_of_it() {
    let plan = plan(|config| config.max_queue = 5);
    let mut mesh = mesh(&plan, 3);
    // It has fewer threads than its callers have connections.
    let cache = mesh.topology().service("user-memcached").unwrap();
    let mut limits = mesh.limits_of(cache);
    limits[ContainerResource::Cpu.index()] = 1;
    give_limits(&mut mesh, cache, limits);
    mesh.run_for(20.0);
    let counts = mesh.conservation();
    assert!(counts.calls_refused > 0 && counts.requests_failed > 0, "{counts:?}");
    assert!(counts.holds(), "{counts:?}");
}

#[test]
fn a_node_gives_no_more_cpu_than_it_has_and_wastes_none() {
    // Two nodes with two cores each, and a load that wants more.
    let plan = plan(|config| {
        config.nodes = 2;
        config.cores_per_node = 2.0;
        config.requests_per_s = 50.0;
    });
    let mut mesh = mesh(&plan, 9);
    for service in 0..36 {
        let replica = mesh.ready_replicas(service)[0];
        mesh.inject(AnomalyKind::Cpu, replica, 1.0, SimDuration::from_secs(100)).unwrap();
    }
    mesh.run_for(10.0);
    let windows = mesh.close_service_windows(SimDuration::from_secs(10));
    let cores: f64 = windows.iter().map(|window| window.usage[0] / 1e3).sum();
    assert!((3.99..=4.000_001).contains(&cores), "{cores}");
}

#[test]
fn equal_seeds_play_equal_games_and_others_do_not() {
    let plan = plan(|config| config.topology = "hotel-reservation".to_owned());
    let play = |seed| {
        let mut mesh = mesh(&plan, seed);
        let replica = mesh.ready_replicas(3)[0];
        mesh.inject(AnomalyKind::Workload, replica, 0.5, SimDuration::from_secs(2)).unwrap();
        mesh.run_for(3.0);
        give_replicas(&mut mesh, 3, 2);
        mesh.run_until(SimTime::ZERO + SimDuration::from_secs(6));
        (mesh.conservation(), mesh.p99(0), mesh.calls_handled())
    };
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}
