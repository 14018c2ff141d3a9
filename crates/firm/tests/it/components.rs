//! From spans to the components of Alg. 3.2.

use homeostat_firm::{PathComponent, path_components};
use homeostat_spans::{NewSpan, SpanKind, SpanLimits, SpanStore};

/// Requests of `site`, which calls `search` over a network; `search` and its network take longer from request
/// to request.
fn components(search_us: fn(u64) -> u64, network_us: fn(u64) -> u64) -> Vec<PathComponent> {
    let mut store = SpanStore::new(SpanLimits::default());
    for request in 0..100u64 {
        let (search, network) = (search_us(request) * 1000, network_us(request) * 1000);
        let begin = 1_000_000_000 + request * 50_000_000;
        let mut push = |id, parent, service: &str, operation: &str, kind, start: u64, ns: u64| {
            let (name, operation) = (store.intern(service), store.intern(operation));
            let instance = store.intern(&format!("{service}-0"));
            store.push(&NewSpan {
                trace_id: u128::from(request) + 1,
                span_id: id,
                parent_id: parent,
                service: name,
                instance,
                operation,
                start_ns: begin + start,
                end_ns: begin + start + ns,
                kind,
                is_error: false,
                follows_from: false,
            });
        };
        let call = search + 2 * network;
        push(1, 0, "site", "get", SpanKind::Server, 0, 1_000_000 + call);
        push(2, 1, "site", "search/find", SpanKind::Client, 500_000, call);
        push(3, 2, "search", "find", SpanKind::Server, 500_000 + network, search);
    }
    path_components(&mut store, 10).0
}

fn of<'a>(components: &'a [PathComponent], instance: &str) -> &'a PathComponent {
    components.iter().find(|one| one.instance == instance).expect("it is on a path")
}

#[test]
fn the_instance_that_varies_with_the_path_is_important_and_congested() {
    let found =
        components(|request| if request % 20 == 0 { 20_000 } else { 1000 + request }, |_| 10);
    assert_eq!(found.len(), 2, "{found:?}");
    let (site, search) = (of(&found, "site-0"), of(&found, "search-0"));
    assert!(search.relative_importance > 0.99 && search.congestion_intensity > 10.0, "{search:?}");
    assert!((site.median_ms - 1.0).abs() < 1e-6 && site.relative_importance == 0.0, "{site:?}");
    assert!((site.congestion_intensity - 1.0).abs() < 1e-9);
    assert_eq!(search.root, ("site".to_owned(), "get".to_owned()));
}

#[test]
fn time_between_the_sides_of_a_call_counts_to_the_callee() {
    let found = components(|_| 1000, |request| 100 * (request % 10));
    let search = of(&found, "search-0");
    assert!(search.relative_importance > 0.99, "{search:?}");
    assert!((search.p99_ms - 2.8).abs() < 0.1, "1 ms and 2 x 0.9 ms: {search:?}");
}

#[test]
fn few_requests_are_no_component() {
    let mut found = components(|_| 1000, |_| 10);
    found.retain(|one| one.requests < 10);
    assert!(found.is_empty());
}
