//! All spans of an analysis, with bounded memory.

use std::collections::BTreeMap;

use crate::defects::SpanDefects;
use crate::names::Names;
use crate::span::{MAX_NS, Span};
use crate::{NameId, NewSpan};

/// How much is kept. The rest is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanLimits {
    /// Spans in all; each takes about 50 bytes, and 50 more while its trace is analysed.
    pub max_spans: usize,
    /// Spans of one trace.
    pub max_spans_per_trace: usize,
    /// Distinct names of services, operations and instances.
    pub max_names: usize,
}

impl Default for SpanLimits {
    fn default() -> Self {
        Self { max_spans: 10_000_000, max_spans_per_trace: 2_000_000, max_names: 200_000 }
    }
}

/// A service and what it does, as one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(u32);

impl OperationId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Spans in the order in which they came, with their names kept once.
#[derive(Debug)]
pub struct SpanStore {
    limits: SpanLimits,
    names: Names,
    operations: Vec<(NameId, NameId)>,
    operation_ids: BTreeMap<(NameId, NameId), OperationId>,
    last_operation: Option<((NameId, NameId), OperationId)>,
    spans: Vec<Span>,
    trace_ids: BTreeMap<u128, u32>,
    last_trace: Option<(u128, u32)>,
    spans_per_trace: Vec<u32>,
    defects: SpanDefects,
}

impl SpanStore {
    /// An empty one.
    pub fn new(limits: SpanLimits) -> Self {
        Self {
            limits,
            names: Names::new(limits.max_names),
            operations: Vec::new(),
            operation_ids: BTreeMap::new(),
            last_operation: None,
            spans: Vec::new(),
            trace_ids: BTreeMap::new(),
            last_trace: None,
            spans_per_trace: Vec::new(),
            defects: SpanDefects::default(),
        }
    }

    /// Keeps a name once.
    pub fn intern(&mut self, name: &str) -> NameId {
        let (id, is_whole) = self.names.intern(name);
        if !is_whole {
            self.defects.name_over_limit += 1;
        }
        id
    }

    /// Adds a span, or counts why it cannot be added.
    pub fn push(&mut self, new: &NewSpan) {
        if new.trace_id == 0 || new.span_id == 0 {
            self.defects.without_id += 1;
            return;
        }
        if self.spans.len() >= self.limits.max_spans {
            self.defects.over_limit += 1;
            return;
        }
        let trace = self.trace(new.trace_id);
        let count = &mut self.spans_per_trace[trace as usize];
        if *count as usize >= self.limits.max_spans_per_trace {
            self.defects.over_limit += 1;
            return;
        }
        *count += 1;
        if new.end_ns < new.start_ns {
            self.defects.end_before_start += 1;
        }
        let duration = new.end_ns.saturating_sub(new.start_ns);
        if new.start_ns > MAX_NS as u64 || duration > MAX_NS as u64 {
            self.defects.time_out_of_range += 1;
        }
        let operation = self.operation((new.service, new.operation));
        self.spans.push(Span {
            id: new.span_id,
            parent_id: new.parent_id,
            start_ns: new.start_ns.min(MAX_NS as u64) as i64,
            duration_ns: duration.min(MAX_NS as u64) as i64,
            trace,
            operation,
            instance: new.instance,
            kind: new.kind,
            is_error: new.is_error,
            follows_from: new.follows_from,
        });
    }

    /// Spans that are kept.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether no span is kept.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Traces with at least one span.
    pub fn traces(&self) -> usize {
        self.spans_per_trace.len()
    }

    /// The limits that it was made with.
    pub fn limits(&self) -> SpanLimits {
        self.limits
    }

    /// What was wrong with the spans that were added.
    pub fn defects(&self) -> SpanDefects {
        self.defects
    }

    /// The name of a service of an operation.
    pub fn service_of(&self, operation: OperationId) -> &str {
        self.names.text(self.operations[operation.index()].0)
    }

    /// The name of an operation in its service.
    pub fn name_of(&self, operation: OperationId) -> &str {
        self.names.text(self.operations[operation.index()].1)
    }

    /// A name that was interned.
    pub fn name(&self, id: NameId) -> &str {
        self.names.text(id)
    }

    pub(crate) fn operations(&self) -> usize {
        self.operations.len()
    }

    pub(crate) fn count_over_limit(&mut self) {
        self.defects.over_limit += 1;
    }

    /// The first start and the last end of all spans, in nanoseconds since 1970.
    pub fn extent_ns(&self) -> Option<(i64, i64)> {
        let first = self.spans.iter().map(|span| span.start_ns).min()?;
        let last = self.spans.iter().map(|span| span.start_ns + span.duration_ns).max()?;
        Some((first, last))
    }

    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Puts the spans of each trace side by side, and returns where each trace ends.
    pub(crate) fn group_by_trace(&mut self) -> Vec<usize> {
        let mut ends = Vec::with_capacity(self.spans_per_trace.len());
        let mut end = 0;
        for count in &self.spans_per_trace {
            end += *count as usize;
            ends.push(end);
        }
        if !self.spans.is_sorted_by_key(|span| span.trace) {
            self.spans.sort_by_key(|span| span.trace);
        }
        ends
    }

    fn trace(&mut self, id: u128) -> u32 {
        if let Some((last, trace)) = self.last_trace
            && last == id
        {
            return trace;
        }
        let next = u32::try_from(self.spans_per_trace.len()).expect("fewer traces than spans");
        let trace = *self.trace_ids.entry(id).or_insert(next);
        if trace == next {
            self.spans_per_trace.push(0);
        }
        self.last_trace = Some((id, trace));
        trace
    }

    fn operation(&mut self, names: (NameId, NameId)) -> OperationId {
        if let Some((last, operation)) = self.last_operation
            && last == names
        {
            return operation;
        }
        let next = OperationId(u32::try_from(self.operations.len()).expect("fewer than spans"));
        let operation = *self.operation_ids.entry(names).or_insert(next);
        if operation == next {
            self.operations.push(names);
        }
        self.last_operation = Some((names, operation));
        operation
    }
}
