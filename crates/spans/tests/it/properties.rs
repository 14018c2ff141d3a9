//! What holds for any spans.

use homeostat_spans::{AnalysisOptions, SpanKind, for_each_request};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::builder::{TestSpan, analyse, span, store};

/// Spans of a few traces with few ids, names and clocks, so that everything goes wrong at times:
/// duplicates, cycles, missing parents, ends before starts.
fn spans() -> impl Strategy<Value = Vec<TestSpan>> {
    let kind = prop_oneof![
        Just(SpanKind::Internal),
        Just(SpanKind::Server),
        Just(SpanKind::Client),
        Just(SpanKind::Producer),
        Just(SpanKind::Consumer),
    ];
    let one = (1..4u128, 1..12u64, 0..12u64, 0..4usize, 0..100u64, 0..100u64, 0..3usize, kind);
    let one = (one, prop::bool::weighted(0.1)).prop_map(|(parts, follows_from)| {
        let (trace, id, parent, name, start, end, host, kind) = parts;
        TestSpan {
            follows_from,
            ..span(id, parent, ["a", "b", "c", "d"][name], start, end)
                .of_trace(trace)
                .on(["x", "y", "z"][host], kind)
        }
    });
    vec(one, 1..60)
}

proptest! {
    #[test]
    fn paths_are_connected_and_their_own_times_are_the_roots_duration(spans in spans()) {
        let mut store = store(&spans);
        let options = AnalysisOptions { min_requests: 2 };
        for_each_request(&mut store, &options, |request| {
            let nodes = request.graph.nodes();
            let root = &nodes[request.root];
            assert_eq!(request.steps[0].node, request.root);
            let mut own = 0;
            for (index, step) in request.steps.iter().enumerate() {
                let node = &nodes[step.node];
                assert!(step.self_ns >= 0, "{step:?}");
                assert!(node.start_ns <= node.end_ns);
                assert!(!node.is_background);
                own += step.self_ns;
                let caller = step.caller.map(|caller| {
                    assert!(caller < index);
                    request.steps[caller].node
                });
                assert_eq!(caller, request.graph.parent(step.node).filter(|_| index > 0));
                if let Some(caller) = caller {
                    assert!(nodes[caller].start_ns <= node.start_ns);
                    assert!(node.end_ns <= nodes[caller].end_ns);
                }
            }
            assert_eq!(own, root.end_ns - root.start_ns);
        });
    }

    #[test]
    fn siblings_on_a_path_follow_each_other(spans in spans()) {
        let mut store = store(&spans);
        for_each_request(&mut store, &AnalysisOptions { min_requests: 2 }, |request| {
            let nodes = request.graph.nodes();
            for (index, step) in request.steps.iter().enumerate() {
                let mut siblings = request.steps[..index].iter().rev();
                if let Some(before) = siblings.find(|other| other.caller == step.caller) {
                    assert!(index == 0 || nodes[before.node].end_ns <= nodes[step.node].start_ns);
                }
            }
        });
    }

    #[test]
    fn every_span_is_a_node_or_counted(spans in spans()) {
        let mut store = store(&spans);
        let mut nodes = 0;
        let defects = for_each_request(&mut store, &AnalysisOptions::default(), |request| {
            // Every trace with a request has one of the first root.
            if request.root == 0 {
                nodes += request.graph.nodes().len() as u64;
            }
        });
        let left_out = defects.duplicate + defects.missing_parent + defects.cyclic;
        prop_assert_eq!(nodes + left_out, spans.len() as u64);
    }

    #[test]
    fn the_order_of_spans_changes_nothing(
        (spans, shuffled) in spans().prop_flat_map(|spans| {
            (Just(spans.clone()), Just(spans).prop_shuffle())
        })
    ) {
        let results = [spans, shuffled].map(|spans| analyse(&mut store(&spans), 2));
        prop_assert_eq!(&results[0], &results[1]);
        for operation in &results[0].0.operations {
            let shares: f64 = operation.steps.iter().map(|step| step.share_ratio).sum();
            let expected = if operation.latency.max_ms > 0.0 { 1.0 } else { 0.0 };
            prop_assert!((shares - expected).abs() < 1e-9, "{shares}");
        }
    }
}
