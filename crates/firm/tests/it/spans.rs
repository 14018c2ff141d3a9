//! From spans to the component at fault.

use homeostat_firm::{Resource, SpanProfile, rank};
use homeostat_spans::{NewSpan, SpanKind, SpanLimits, SpanStore};

/// Requests `site -> {search, pay}`; `work_us` of the three services, and of the network of each.
fn profile(work_us: [u64; 3], network_us: [u64; 3]) -> SpanProfile {
    let mut store = SpanStore::new(SpanLimits::default());
    for request in 0..40u64 {
        let noise = request % 4 * 10;
        let [site, search, pay] = work_us.map(|us| (us + noise) * 1000);
        let [at_site, at_search, at_pay] = network_us.map(|us| (us + noise) * 1000);
        let (to_search, to_pay) = (at_site + at_search, at_site + at_pay);
        let mut push = |id, parent, service: &str, operation: &str, start: u64, ns: u64| {
            let (service, operation) = (store.intern(service), store.intern(operation));
            let start = 1_000_000_000 + start;
            store.push(&NewSpan {
                trace_id: u128::from(request) + 1,
                span_id: id,
                parent_id: parent,
                service,
                instance: service,
                operation,
                start_ns: start,
                end_ns: start + ns,
                kind: SpanKind::Internal,
                is_error: false,
                follows_from: false,
            });
        };
        let (first, second) = (search + to_search, pay + to_pay);
        push(1, 0, "site", "GET", 0, site + first + second);
        push(2, 1, "site", "call search", 0, first);
        push(3, 2, "search", "search", to_search / 2, search);
        push(4, 1, "site", "call pay", first, second);
        push(5, 4, "pay", "pay", first + to_pay / 2, pay);
    }
    SpanProfile::of(&mut store).0
}

const WORK: [u64; 3] = [500, 900, 700];
const NETWORK: [u64; 3] = [50, 50, 50];

#[test]
fn the_component_that_computes_longer_is_first() {
    let slow = profile([500, 9000, 700], NETWORK);
    let ranking = rank(profile(WORK, NETWORK).evidence(&slow, 0.05, 1));
    assert_eq!(ranking[0].component, "search");
}

#[test]
fn a_slow_network_is_found_at_the_component_whose_edges_are_all_slow() {
    let slow = profile(WORK, [50, 50, 5000]);
    let ranking = rank(profile(WORK, NETWORK).evidence(&slow, 0.05, 1));
    assert_eq!(ranking[0].component, "pay");
    assert_eq!(ranking[0].resource, Some(Resource::Network));
}

#[test]
fn nothing_stands_out_where_nothing_changed() {
    let same = profile(WORK, NETWORK);
    let ranking = rank(profile(WORK, NETWORK).evidence(&same, 0.05, 1));
    assert!(ranking.iter().all(|ranked| ranked.score.abs() < 1e-9), "{ranking:?}");
}
