//! Each type of anomaly slows down the requests that need its service, no others, and ends.

use homeostat_anomalies::AnomalyKind;
use homeostat_core::{Fraction, SimDuration};
use homeostat_decide::ContainerResource;
use homeostat_sim_mesh::{Mesh, stressed_resource};

use crate::setup::{give_limits, mesh, plan};

/// The first type of requests of Media: reviews are composed.
const REVIEWED: usize = 0;

fn median_ms(mesh: &mut Mesh, kind: usize, length_s: f64) -> f64 {
    mesh.close_request_windows();
    mesh.run_for(length_s);
    let mut windows = mesh.close_request_windows();
    let median = windows[kind].latency.quantile(Fraction::from_percent(50));
    median.expect("requests were answered").seconds() * 1e3
}

#[test]
fn every_anomaly_is_felt_and_passes() {
    for kind in AnomalyKind::ALL {
        // A request that is one call of one service; and one that needs a database, for its disks.
        let (topology, service, request) = match kind {
            AnomalyKind::Disk => ("media", "review-storage-mongodb", "compose-review"),
            _ => ("train-ticket", "ts-news-service", "news"),
        };
        let plan = plan(|config| config.topology = topology.to_owned());
        let mut mesh = mesh(&plan, 21);
        let service = mesh.topology().service(service).unwrap();
        let request = mesh.topology().request_types().position(|name| name == request).unwrap();
        let before = median_ms(&mut mesh, request, 20.0);
        let replica = mesh.ready_replicas(service)[0];
        let id = mesh.inject(kind, replica, 1.0, SimDuration::from_secs(5)).unwrap();
        let usage =
            |mesh: &mut Mesh| mesh.close_service_windows(SimDuration::from_secs(5))[service].usage;
        usage(&mut mesh);
        let arrived = mesh.totals(request).arrived;
        let during = median_ms(&mut mesh, request, 5.0);
        let used = usage(&mut mesh);
        match kind {
            AnomalyKind::Workload => {
                let more = (mesh.totals(request).arrived - arrived) as f64 / (5.0 * 200.0 / 19.0);
                assert!((3.2..4.8).contains(&more), "{more} times the load");
            }
            _ => assert!(during > 1.2 * before, "{kind}: {during} ms after {before} ms"),
        }
        if let Some(resource) = stressed_resource(kind) {
            let limit = mesh.limits_of(service)[resource.index()] as f64;
            let share = used[resource.index()] / limit;
            assert!((0.9..1.001).contains(&share), "{kind} uses {share} of the limit");
        }
        assert!(!mesh.is_active(id));
        mesh.run_for(10.0);
        let after = median_ms(&mut mesh, request, 20.0);
        assert!(after < 1.2 * before, "{kind}: {after} ms after the end, {before} ms before");
    }
}

#[test]
fn more_of_the_right_resource_repairs_and_more_of_another_does_not() {
    let latency = |repaired: Option<ContainerResource>| {
        let plan = plan(|config| config.topology = "media".to_owned());
        let mut mesh = mesh(&plan, 22);
        let service = mesh.topology().service("compose-review-service").unwrap();
        let replica = mesh.ready_replicas(service)[0];
        let length = SimDuration::from_secs(100);
        mesh.inject(AnomalyKind::MemoryBandwidth, replica, 1.0, length).unwrap();
        if let Some(resource) = repaired {
            let mut limits = mesh.limits_of(service);
            limits[resource.index()] *= 12;
            give_limits(&mut mesh, service, limits);
        }
        mesh.run_for(2.0);
        median_ms(&mut mesh, REVIEWED, 5.0)
    };
    let contended = latency(None);
    let with_bandwidth = latency(Some(ContainerResource::MemoryBandwidth));
    let with_disk = latency(Some(ContainerResource::Disk));
    assert!(with_bandwidth < 0.9 * contended, "{with_bandwidth} of {contended} ms");
    assert!((with_disk / contended - 1.0).abs() < 0.05, "{with_disk} of {contended} ms");
}

#[test]
fn an_intensity_that_is_none_is_refused() {
    let plan = plan(|config| config.topology = "hotel-reservation".to_owned());
    let mut mesh = mesh(&plan, 1);
    let replica = mesh.ready_replicas(0)[0];
    for intensity in [f64::NAN, -0.1, 1.1] {
        let error = mesh.inject(AnomalyKind::Cpu, replica, intensity, SimDuration::from_secs(1));
        assert!(error.unwrap_err().to_string().contains("from 0 to 1"));
    }
}
