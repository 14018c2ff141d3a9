//! The spans of the simulator are those of a real system: the readers' store and analysis take them.

use homeostat_anomalies::AnomalyKind;
use homeostat_core::{SeedTree, SimDuration};
use homeostat_sim_mesh::{Mesh, SpanRecord};
use homeostat_spans::{
    AnalysisOptions, CriticalPaths, OperationId, SpanLimits, SpanStore, TimeRange, for_each_request,
};

use crate::setup::plan;

#[test]
fn recorded_spans_make_whole_requests_with_the_latency_that_was_measured() {
    let plan = plan(|config| config.topology = "social-network".to_owned());
    let mut setup = plan.setup();
    setup.record_every = 1;
    // A span is the time inside the service; the client also waits for two messages.
    setup.link = SimDuration::ZERO;
    let mut mesh = Mesh::new(setup, &SeedTree::new(6)).unwrap();
    mesh.run_for(5.0);
    let spans = mesh.take_spans();
    let mut store = SpanStore::new(SpanLimits::default());
    mesh.store_spans(&spans, &mut store);
    let with_client = |span: &&SpanRecord| span.parent != 0 && !span.is_background;
    assert_eq!(store.len(), spans.len() + spans.iter().filter(with_client).count());
    let (reports, defects) =
        CriticalPaths::analyse(&mut store, &AnalysisOptions::default(), &[TimeRange::ALL]);
    let requests: u64 = reports[0].operations.iter().map(|report| report.requests).sum();
    let counts = mesh.conservation();
    assert!(requests >= counts.requests_completed, "{requests} of {counts:?} {defects:?}");
    let compose =
        reports[0].operations.iter().find(|report| report.operation == "compose-post").unwrap();
    let measured = mesh.totals(0).latency.mean().unwrap().seconds() * 1e3;
    let ratio = compose.latency.mean_ms / measured;
    assert!((0.95..1.05).contains(&ratio), "{} ms of {measured} ms", compose.latency.mean_ms);
}

#[test]
fn one_request_in_so_many_is_recorded_as_a_whole() {
    let plan = plan(|config| config.topology = "hotel-reservation".to_owned());
    let mut setup = plan.setup();
    setup.record_every = 10;
    let mut mesh = Mesh::new(setup, &SeedTree::new(6)).unwrap();
    mesh.run_for(5.0);
    let spans = mesh.take_spans();
    let roots = spans.iter().filter(|span| span.parent == 0).count() as f64;
    let tenth = mesh.conservation().requests_arrived as f64 / 10.0;
    assert!((roots - tenth).abs() <= 5.0, "{roots} of {tenth}");
    assert!(mesh.take_spans().is_empty());
}

#[test]
fn the_slowest_of_parallel_calls_is_on_the_critical_path() {
    let plan = plan(|config| config.topology = "social-network".to_owned());
    let mut setup = plan.setup();
    setup.record_every = 1;
    let mut mesh = Mesh::new(setup, &SeedTree::new(6)).unwrap();
    let text = mesh.topology().service("text-service").unwrap();
    let replica = mesh.ready_replicas(text)[0];
    mesh.inject(AnomalyKind::NetworkDelay, replica, 1.0, SimDuration::from_secs(60)).unwrap();
    mesh.run_for(5.0);
    let spans = mesh.take_spans();
    let mut store = SpanStore::new(SpanLimits::default());
    mesh.store_spans(&spans, &mut store);
    let mut paths = Vec::new();
    for_each_request(&mut store, &AnalysisOptions::default(), |request| {
        let nodes = request.graph.nodes();
        let path = request.steps.iter().map(|step| nodes[step.node].operation);
        paths.push((nodes[request.root].operation, path.collect::<Vec<_>>()));
    });
    paths.retain(|(root, _)| store.name_of(*root) == "compose-post");
    let is_text = |operation: &OperationId| store.service_of(*operation) == "text-service";
    let with_text = paths.iter().filter(|(_, path)| path.iter().any(is_text)).count();
    assert!(paths.len() > 50 && with_text > paths.len() * 9 / 10, "{with_text} of {}", paths.len());
}
