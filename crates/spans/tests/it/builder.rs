//! Spans in a few words.

use homeostat_spans::{
    AnalysisOptions, CriticalPaths, NewSpan, OperationReport, SpanDefects, SpanKind, SpanLimits,
    SpanStore, TimeRange,
};

/// A span of a test: ids are small numbers, times are milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct TestSpan {
    pub(crate) trace: u128,
    pub(crate) id: u64,
    pub(crate) parent: u64,
    pub(crate) name: String,
    pub(crate) instance: String,
    pub(crate) start_ms: u64,
    pub(crate) end_ms: u64,
    pub(crate) kind: SpanKind,
    pub(crate) follows_from: bool,
}

/// A span of trace 1 whose name is its service, its instance and its operation.
pub(crate) fn span(id: u64, parent: u64, name: &str, start_ms: u64, end_ms: u64) -> TestSpan {
    TestSpan {
        trace: 1,
        id,
        parent,
        name: name.to_owned(),
        instance: "one host".to_owned(),
        start_ms,
        end_ms,
        kind: SpanKind::Internal,
        follows_from: false,
    }
}

impl TestSpan {
    pub(crate) fn of_trace(mut self, trace: u128) -> Self {
        self.trace = trace;
        self
    }

    pub(crate) fn on(mut self, instance: &str, kind: SpanKind) -> Self {
        (self.instance, self.kind) = (instance.to_owned(), kind);
        self
    }
}

pub(crate) fn store_with(limits: SpanLimits, spans: &[TestSpan]) -> SpanStore {
    let mut store = SpanStore::new(limits);
    for span in spans {
        let name = store.intern(&span.name);
        let new = NewSpan {
            trace_id: span.trace,
            span_id: span.id,
            parent_id: span.parent,
            service: name,
            instance: store.intern(&span.instance),
            operation: name,
            start_ns: span.start_ms.saturating_mul(1_000_000),
            end_ns: span.end_ms.saturating_mul(1_000_000),
            kind: span.kind,
            is_error: false,
            follows_from: span.follows_from,
        };
        store.push(&new);
    }
    store
}

pub(crate) fn store(spans: &[TestSpan]) -> SpanStore {
    store_with(SpanLimits::default(), spans)
}

pub(crate) fn analyse(store: &mut SpanStore, min_requests: u32) -> (CriticalPaths, SpanDefects) {
    let options = AnalysisOptions { min_requests };
    let (mut paths, defects) = CriticalPaths::analyse(store, &options, &[TimeRange::ALL]);
    (paths.remove(0), defects)
}

/// The only operation of these spans.
pub(crate) fn only_operation(spans: &[TestSpan], min_requests: u32) -> OperationReport {
    let (paths, _) = analyse(&mut store(spans), min_requests);
    assert_eq!(paths.operations.len(), 1, "{paths:?}");
    paths.operations[0].clone()
}

/// Operation and own milliseconds of each step, in order.
pub(crate) fn steps(report: &OperationReport) -> Vec<(&str, f64)> {
    report.steps.iter().map(|step| (step.operation.as_str(), step.self_ms)).collect()
}
