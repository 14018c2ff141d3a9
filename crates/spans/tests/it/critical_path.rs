//! Examples that can be worked out by hand, after 3.2.2.

use homeostat_spans::{
    AnalysisOptions, CriticalPaths, SpanKind, TimeRange, Workflow, compare, for_each_request,
};

use crate::builder::{TestSpan, analyse, only_operation, span, steps, store};

/// The request of figure 2.1: N calls U, V and T in parallel, then I; W is in the background.
fn compose_post(v_end: u64) -> Vec<TestSpan> {
    vec![
        span(1, 0, "N", 0, 100),
        span(2, 1, "U", 10, 30),
        span(3, 1, "V", 12, v_end),
        span(4, 1, "T", 14, 40),
        span(5, 1, "I", 60, 80),
        span(6, 1, "W", 85, 140),
        span(7, 5, "DB", 65, 75),
    ]
}

#[test]
fn the_path_is_the_last_returned_child_and_what_happened_before_it() {
    let report = only_operation(&compose_post(50), 10);
    assert_eq!(steps(&report), [("N", 42.0), ("V", 38.0), ("I", 10.0), ("DB", 10.0)]);
    assert_eq!(report.latency.mean_ms, 100.0);
    let callers: Vec<_> = report.steps.iter().map(|step| step.caller).collect();
    assert_eq!(callers, [None, Some(0), Some(0), Some(2)]);
    // Another branch is slower: the path moves.
    let report = only_operation(&compose_post(20), 10);
    assert_eq!(steps(&report)[1], ("T", 26.0));
}

#[test]
fn children_are_parallel_sequential_or_in_the_background() {
    let mut store = store(&compose_post(50));
    let mut seen = 0;
    for_each_request(&mut store, &AnalysisOptions::default(), |request| {
        let graph = request.graph;
        let named = |ms: i64| {
            let is = |child: &usize| graph.nodes()[*child].start_ns == ms * 1_000_000;
            graph.children(request.root).find(is).unwrap()
        };
        let [u, v, i, w] = [10, 12, 60, 85].map(named);
        assert_eq!(graph.workflow(u, v), Workflow::Parallel);
        assert_eq!(graph.workflow(v, u), Workflow::Parallel);
        assert_eq!(graph.workflow(u, i), Workflow::Sequential);
        assert_eq!(graph.workflow(i, w), Workflow::Background);
        assert_eq!(graph.parent(u), Some(request.root));
        seen += 1;
    });
    assert_eq!(seen, 1);
}

#[test]
fn children_that_start_together_are_parallel() {
    let spans = [span(1, 0, "P", 0, 10), span(2, 1, "A", 1, 4), span(3, 1, "B", 1, 5)];
    for_each_request(&mut store(&spans), &AnalysisOptions::default(), |request| {
        let children: Vec<usize> = request.graph.children(request.root).collect();
        assert_eq!(request.graph.workflow(children[0], children[1]), Workflow::Parallel);
    });
}

/// `count` requests in which A ends before B starts, then one with these times of A and B.
fn requests(count: u128, a: (u64, u64), b: (u64, u64)) -> Vec<TestSpan> {
    let request = |trace: u128, a: (u64, u64), b: (u64, u64)| {
        [
            span(1, 0, "P", 0, 10).of_trace(trace),
            span(2, 1, "A", a.0, a.1).of_trace(trace),
            span(3, 1, "B", b.0, b.1).of_trace(trace),
        ]
    };
    let ordered = (1..=count).flat_map(|trace| request(trace, (1, 4), (5, 9)));
    ordered.chain(request(count + 1, a, b)).collect()
}

#[test]
fn an_order_that_always_holds_is_sequential() {
    let report = only_operation(&requests(19, (1, 4), (5, 9)), 10);
    assert_eq!(steps(&report), [("P", 3.0), ("A", 3.0), ("B", 4.0)]);
}

#[test]
fn one_request_that_violates_an_order_refutes_it_for_all() {
    // They overlap once: A is not waited for before B, so the time before B is the parent's.
    let report = only_operation(&requests(19, (1, 7), (5, 9)), 10);
    assert_eq!(steps(&report), [("P", 6.0), ("B", 4.0)]);
    // They come the other way round once.
    let report = only_operation(&requests(19, (6, 9), (1, 5)), 10);
    let names: Vec<&str> = steps(&report).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["P", "B", "A"]);
    let share = report.steps.iter().map(|step| step.share_ratio).sum::<f64>();
    assert!((share - 1.0).abs() < 1e-12);
    assert_eq!(report.distinct_paths, 2);
    assert_eq!(report.most_frequent_path_ratio, 0.95);
}

#[test]
fn an_order_needs_enough_requests() {
    // A precedes B in 3 of 20 requests, and B is alone in the rest.
    let mut spans = requests(2, (1, 4), (5, 9));
    for trace in 4..=20 {
        spans.push(span(1, 0, "P", 0, 10).of_trace(trace));
        spans.push(span(3, 1, "B", 5, 9).of_trace(trace));
        spans.push(span(4, 1, "C", 1, 2).of_trace(trace));
    }
    let has_a = |min_requests| {
        let report = only_operation(&spans, min_requests);
        steps(&report).iter().any(|(name, _)| *name == "A")
    };
    assert!(has_a(3));
    assert!(!has_a(4));
    assert!(has_a(21), "with fewer executions than needed, the order in time is all there is");
}

#[test]
fn calls_in_a_loop_are_sequential() {
    let mut spans = Vec::new();
    for trace in 1..=12 {
        spans.push(span(1, 0, "P", 0, 100).of_trace(trace));
        for turn in 0..4 {
            let (id, start) = (10 * turn + 10, 20 * turn);
            spans.push(span(id, 1, "read", start, start + 8).of_trace(trace));
            spans.push(span(id + 1, 1, "write", start + 10, start + 20).of_trace(trace));
        }
    }
    let report = only_operation(&spans, 10);
    assert_eq!(steps(&report), [("P", 28.0), ("read", 32.0), ("write", 40.0)]);
    assert_eq!(report.steps[1].calls_per_request, 4.0);
}

#[test]
fn a_name_that_repeats_has_no_order_that_could_be_violated() {
    // Most requests call get, post, get; one ends after get, post; another begins with post.
    let mut spans = Vec::new();
    for trace in 1..=20 {
        let names: &[&str] = match trace {
            1 => &["get", "post"],
            2 => &["post", "get"],
            _ => &["get", "post", "get"],
        };
        spans.push(span(1, 0, "P", 0, 30).of_trace(trace));
        for (turn, name) in (0..).zip(names) {
            spans.push(span(turn + 2, 1, name, 10 * turn, 10 * turn + 10).of_trace(trace));
        }
    }
    let report = only_operation(&spans, 10);
    assert_eq!(steps(&report)[0], ("P", 1.0), "only the two short requests leave time to P");
}

#[test]
fn marks_of_asynchrony_put_a_child_in_the_background() {
    let mut follower = span(2, 1, "A", 1, 9);
    follower.follows_from = true;
    let consumer = span(2, 1, "A", 1, 9).on("queue", SpanKind::Consumer);
    for child in [follower, consumer] {
        let report = only_operation(&[span(1, 0, "P", 0, 10), child], 1);
        assert_eq!(steps(&report), [("P", 10.0)]);
    }
}

#[test]
fn a_server_with_a_wrong_clock_is_moved_into_its_clients_call() {
    let call = span(2, 1, "call", 1010, 1030).on("a", SpanKind::Client);
    let root = span(1, 0, "P", 1000, 1100).on("a", SpanKind::Server);
    for shift in [-500i64, -15, 0, 15, 500] {
        let at = |ms: i64| (ms + shift) as u64;
        let server = span(3, 2, "S", at(1015), at(1025)).on("b", SpanKind::Server);
        let below = span(4, 3, "D", at(1018), at(1022)).on("b", SpanKind::Internal);
        let spans = [root.clone(), call.clone(), server, below];
        let (paths, defects) = analyse(&mut store(&spans), 1);
        let report = &paths.operations[0];
        assert_eq!(steps(report), [("P", 80.0), ("call", 10.0), ("S", 6.0), ("D", 4.0)]);
        assert_eq!(defects.clock_skew, u64::from(shift != 0), "shift {shift}");
    }
}

#[test]
fn a_server_that_outlives_the_call_of_its_client_did_not_answer() {
    let spans = [
        span(1, 0, "P", 0, 100).on("a", SpanKind::Client),
        span(2, 1, "S", 10, 300).on("b", SpanKind::Server),
    ];
    assert_eq!(steps(&only_operation(&spans, 1)), [("P", 100.0)]);
}

#[test]
fn two_sides_of_a_call_may_share_an_id() {
    let spans = [
        span(1, 0, "P", 0, 100),
        span(2, 1, "call", 10, 60).on("a", SpanKind::Client),
        span(2, 1, "S", 20, 50).on("b", SpanKind::Server),
        span(3, 2, "D", 25, 45).on("b", SpanKind::Internal),
    ];
    let (paths, defects) = analyse(&mut store(&spans), 1);
    let report = &paths.operations[0];
    assert_eq!(steps(report), [("P", 50.0), ("call", 20.0), ("S", 10.0), ("D", 20.0)]);
    assert_eq!(defects.duplicate, 0);
}

#[test]
fn two_ranges_of_time_show_which_step_changed() {
    let mut spans = Vec::new();
    for trace in 1..=20u64 {
        let (start, slow) = (trace * 1000, if trace > 10 { 30 } else { 0 });
        let trace = u128::from(trace);
        spans.push(span(1, 0, "P", start, start + 50 + slow).of_trace(trace));
        spans.push(span(2, 1, "A", start + 5, start + 15).of_trace(trace));
        spans.push(span(3, 1, "B", start + 20, start + 40 + slow).of_trace(trace));
    }
    let range = |text| TimeRange::parse(text, 1_000_000_000).unwrap();
    let ranges = [range("+0s..+10s"), range("+10s..+1h")];
    let options = AnalysisOptions::default();
    let (paths, _) = CriticalPaths::analyse(&mut store(&spans), &options, &ranges);
    let changes = compare(&paths[0], &paths[1]);
    assert_eq!(changes[0].requests, [10, 10]);
    let step = &changes[0].steps[0];
    assert_eq!((step.operation.as_str(), step.self_ms), ("B", [20.0, 50.0]));
    assert_eq!((step.change_ms, &step.path), (30.0, &vec!["P P".to_owned(), "B B".to_owned()]));
    assert!(changes[0].steps[1..].iter().all(|step| step.change_ms == 0.0));
}

#[test]
fn a_failed_root_counts_as_an_error() {
    let json = r#"[{"traceId":"1","id":"2","name":"get","timestamp":5,"duration":7,
        "localEndpoint":{"serviceName":"shop"},"tags":{"error":"timeout"}}]"#;
    let mut store = crate::readers::read_text(json).unwrap();
    let (paths, _) = analyse(&mut store, 1);
    assert_eq!((paths.operations[0].requests, paths.operations[0].errors), (1, 1));
}
