//! The spans of the simulator are those of a real system: the readers' store and analysis take them.

use homeostat_core::SeedTree;
use homeostat_sim_mesh::Mesh;
use homeostat_spans::{AnalysisOptions, CriticalPaths, SpanLimits, SpanStore, TimeRange};

use crate::setup::plan;

#[test]
fn recorded_spans_make_whole_requests_with_the_latency_that_was_measured() {
    let plan = plan(|config| config.topology = "social-network".to_owned());
    let mut setup = plan.setup();
    setup.record_every = 1;
    // A span is the time inside the service; the client also waits for two messages.
    setup.link = homeostat_core::SimDuration::ZERO;
    let mut mesh = Mesh::new(setup, &SeedTree::new(6)).unwrap();
    mesh.run_for(5.0);
    let spans = mesh.take_spans();
    let mut store = SpanStore::new(SpanLimits::default());
    mesh.store_spans(&spans, &mut store);
    assert_eq!(store.len(), spans.len());
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
