//! Spans that are wrong, too many, or made to do harm.

use homeostat_spans::SpanLimits;

use crate::builder::{TestSpan, analyse, span, steps, store, store_with};

#[test]
fn a_trace_as_deep_as_it_has_spans_overflows_no_stack() {
    let depth = 300_000;
    // An odd factor scatters ids as random ones are, and keeps them distinct.
    let id = |k: u64| k.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let spans: Vec<TestSpan> =
        (1..=depth).map(|k| span(id(k), id(k - 1), "f", 0, 1_000_000 - k)).collect();
    let (paths, defects) = analyse(&mut store(&spans), 10);
    let report = &paths.operations[0];
    assert_eq!(report.latency.max_ms, 999_999.0);
    let own: f64 = report.steps.iter().map(|step| step.self_ms).sum();
    assert!((own - 999_999.0).abs() < 1e-3);
    assert_eq!(report.steps.len() as u64 + defects.merged_steps, depth);
}

#[test]
fn a_trace_as_wide_as_it_has_spans_takes_no_quadratic_time() {
    let width = 300_000;
    let mut spans = vec![span(1, 0, "P", 0, 10_000_000)];
    spans
        .extend((0..width).map(|k| span(k + 2, 1, &format!("f{}", k % 2000), 10 * k, 10 * k + 15)));
    let (paths, defects) = analyse(&mut store(&spans), 1);
    assert!(defects.forgotten_sequences > 0);
    assert_eq!(paths.operations[0].requests, 1);
}

#[test]
fn spans_beyond_the_limits_are_counted_and_left_out() {
    let limits = SpanLimits { max_spans: 50, max_spans_per_trace: 10, max_names: 3 };
    let spans: Vec<TestSpan> = (1..=100)
        .map(|id| {
            span(id, id - 1, &format!("f{id}"), 0, 10).of_trace(if id <= 20 {
                1
            } else {
                id.into()
            })
        })
        .collect();
    let store = store_with(limits, &spans);
    assert_eq!(store.len(), 50);
    let defects = store.defects();
    assert_eq!(defects.over_limit, 50);
    assert!(defects.name_over_limit > 90, "{defects:?}");
}

#[test]
fn copies_count_once_and_the_longest_is_kept() {
    let spans = [span(1, 0, "P", 0, 1), span(1, 0, "P", 0, 10), span(1, 0, "P", 0, 10)];
    let (paths, defects) = analyse(&mut store(&spans), 1);
    assert_eq!((paths.requests, defects.duplicate), (1, 2));
    assert_eq!(paths.operations[0].latency.max_ms, 10.0);
}

#[test]
fn cycles_are_left_out() {
    let spans = [
        span(1, 0, "P", 0, 10),
        span(2, 3, "A", 1, 2),
        span(3, 2, "B", 1, 2),
        span(4, 3, "below", 1, 2),
        span(5, 5, "its own parent", 1, 2),
    ];
    let (paths, defects) = analyse(&mut store(&spans), 1);
    assert_eq!((paths.requests, defects.cyclic, defects.missing_parent), (1, 4, 0));
}

#[test]
fn a_trace_of_cycles_alone_has_no_request() {
    let (paths, defects) = analyse(&mut store(&[span(1, 2, "A", 1, 2), span(2, 1, "B", 1, 2)]), 1);
    assert_eq!((paths.requests, defects.cyclic), (0, 2));
    assert_eq!(defects.traces_without_root, 0);
}

#[test]
fn spans_whose_parents_are_missing_are_left_out_of_a_trace_with_a_root() {
    let spans = [span(1, 0, "P", 0, 10), span(2, 9, "A", 1, 2), span(3, 2, "B", 1, 2)];
    let (paths, defects) = analyse(&mut store(&spans), 1);
    assert_eq!((paths.requests, defects.missing_parent), (1, 2));
}

#[test]
fn a_trace_without_its_root_begins_at_spans_whose_parents_are_missing() {
    let spans = [span(2, 1, "A", 1, 8), span(3, 2, "B", 2, 6)];
    let (paths, defects) = analyse(&mut store(&spans), 1);
    assert_eq!(steps(&paths.operations[0]), [("A", 3.0), ("B", 4.0)]);
    assert_eq!((defects.traces_without_root, defects.missing_parent), (1, 0));
}

#[test]
fn an_end_before_its_start_is_a_duration_of_zero() {
    let spans = [span(1, 0, "P", 0, 10), span(2, 1, "A", 8, 3)];
    let (paths, defects) = analyse(&mut store(&spans), 1);
    assert_eq!(defects.end_before_start, 1);
    assert_eq!(steps(&paths.operations[0]), [("P", 10.0), ("A", 0.0)]);
}

#[test]
fn absent_ids_and_impossible_times_are_counted() {
    let huge = u64::MAX / 1_000_000;
    let spans = [span(0, 0, "no id", 0, 1), span(1, 0, "P", huge, huge), span(2, 0, "Q", 0, huge)];
    let (paths, defects) = analyse(&mut store(&spans), 1);
    assert_eq!((defects.without_id, defects.time_out_of_range), (1, 2));
    assert_eq!(paths.requests, 2);
}

#[test]
fn clocks_that_are_decades_apart_add_up_to_nothing_impossible() {
    let huge = u64::MAX / 1_000_000;
    let spans: Vec<TestSpan> = (1..200)
        .map(|id| {
            let start = if id % 2 == 0 { 0 } else { huge };
            let host = format!("host {}", id % 3);
            span(id, id - 1, "f", start, start + huge / 9).on(&host, Default::default())
        })
        .collect();
    let (paths, _) = analyse(&mut store(&spans), 1);
    assert_eq!(paths.requests, 1);
}
