//! The spans of one request, from its arrival to the last byte of its answer.

use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use http::HeaderMap;

use super::context::{TRACEPARENT, TRACESTATE, TraceContext};
use super::export::SpanQueue;
use crate::settings::SpanSettings;

const NOT_POISONED: &str = "no code panics while it holds this lock";

/// An operation that took time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) id: u64,
    /// Zero for the first of a trace.
    pub(crate) parent_id: u64,
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    /// Since 1970.
    pub(crate) start_ns: u64,
    /// Zero until it ends.
    pub(crate) end_ns: u64,
    pub(crate) attributes: Vec<(&'static str, Value)>,
    /// What went wrong.
    pub(crate) error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Internal,
    Server,
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Number(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Value {
    fn from(integer: u64) -> Self {
        Self::Integer(i64::try_from(integer).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// What becomes of the trace of a request. The spans go into the queue when the last copy is dropped.
#[derive(Debug, Clone, Default)]
pub(crate) enum RequestTrace {
    /// The client's headers go on as they came.
    #[default]
    PassOn,
    /// A trace that begins here and that is not kept: later spans of it shall not be kept either.
    Unsampled(TraceContext),
    /// Kept.
    Recorded(Arc<Recording>),
}

#[derive(Debug)]
pub(crate) struct Recording {
    queue: Arc<SpanQueue>,
    trace_id: u128,
    has_parent: bool,
    /// Times are measured from here on a clock that never jumps.
    start: Instant,
    start_ns: u64,
    /// The first one is the request's.
    spans: Mutex<Vec<Span>>,
}

impl RequestTrace {
    /// For a request that arrives now, by what its client decided or else by the settings.
    pub(crate) fn begin(
        queue: &Arc<SpanQueue>,
        settings: &SpanSettings,
        headers: &HeaderMap,
        name: impl FnOnce() -> String,
    ) -> Self {
        if settings.endpoint.is_none() {
            return Self::PassOn;
        }
        let parent = TraceContext::of(headers);
        let trace_id = match parent {
            Some(parent) if !parent.is_sampled => return Self::PassOn,
            Some(parent) => parent.trace_id,
            None => {
                let trace_id = queue.new_trace_id();
                if !is_sampled(trace_id, settings.sample_ratio) {
                    let span_id = queue.new_span_id();
                    return Self::Unsampled(TraceContext { trace_id, span_id, is_sampled: false });
                }
                trace_id
            }
        };
        // A clock before 1970 counts as 1970.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let server = Span {
            id: queue.new_span_id(),
            parent_id: parent.map_or(0, |parent| parent.span_id),
            name: name(),
            kind: SpanKind::Server,
            start_ns,
            end_ns: 0,
            attributes: Vec::new(),
            error: None,
        };
        Self::Recorded(Arc::new(Recording {
            queue: queue.clone(),
            trace_id,
            has_parent: parent.is_some(),
            start: Instant::now(),
            start_ns,
            spans: Mutex::new(vec![server]),
        }))
    }

    /// Puts what upstreams need to know into their headers. An attempt that is recorded adds its own span.
    pub(crate) fn pass_on(&self, from: &HeaderMap, to: &mut HeaderMap) {
        let names = match self {
            Self::PassOn => &[&TRACEPARENT, &TRACESTATE][..],
            Self::Recorded(recording) if recording.has_parent => &[&TRACESTATE],
            Self::Recorded(_) => &[],
            Self::Unsampled(context) => {
                to.insert(&TRACEPARENT, context.header());
                &[]
            }
        };
        for name in names {
            for value in from.get_all(*name) {
                to.append(*name, value.clone());
            }
        }
    }

    /// An attribute of the request.
    pub(crate) fn set(&self, key: &'static str, value: impl Into<Value>) {
        self.change(0, |span| span.set(key, value.into()));
    }

    /// The request failed, by the code of its error.
    pub(crate) fn fail(&self, code: &str) {
        self.change(0, |span| span.fail(code));
    }

    /// Begins a part of the request.
    pub(crate) fn child(&self, kind: SpanKind, name: impl FnOnce() -> String) -> ChildSpan {
        let Self::Recorded(recording) = self else { return ChildSpan::default() };
        let mut spans = recording.spans.lock().expect(NOT_POISONED);
        let span = Span {
            id: recording.queue.new_span_id(),
            parent_id: spans[0].id,
            name: name(),
            kind,
            start_ns: recording.now_ns(),
            end_ns: 0,
            attributes: Vec::new(),
            error: None,
        };
        spans.push(span);
        let place = spans.len() - 1;
        drop(spans);
        ChildSpan { trace: self.clone(), place }
    }

    fn change(&self, place: usize, change: impl FnOnce(&mut Span)) {
        if let Self::Recorded(recording) = self {
            change(&mut recording.spans.lock().expect(NOT_POISONED)[place]);
        }
    }
}

impl Recording {
    fn now_ns(&self) -> u64 {
        let since = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.start_ns.saturating_add(since)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let now = self.now_ns();
        let mut spans = std::mem::take(self.spans.get_mut().expect(NOT_POISONED));
        spans[0].end_ns = now;
        self.queue.push(self.trace_id, spans);
    }
}

impl Span {
    /// A later value replaces an earlier one: a key may be there once only.
    fn set(&mut self, key: &'static str, value: Value) {
        match self.attributes.iter_mut().find(|(own, _)| *own == key) {
            Some((_, own)) => *own = value,
            None => self.attributes.push((key, value)),
        }
    }

    fn fail(&mut self, code: &str) {
        if self.error.is_none() {
            self.set("error.type", code.into());
            self.error = Some(code.to_owned());
        }
    }
}

/// A part of a request; dropping it ends its span, as cancelled unless it has succeeded or failed.
#[derive(Debug, Default)]
pub(crate) struct ChildSpan {
    trace: RequestTrace,
    place: usize,
}

impl ChildSpan {
    /// An attribute of this part.
    pub(crate) fn set(&self, key: &'static str, value: impl Into<Value>) {
        self.trace.change(self.place, |span| span.set(key, value.into()));
    }

    /// An attribute of this part and of the whole request.
    pub(crate) fn set_both(&self, key: &'static str, value: impl Into<Value> + Clone) {
        self.trace.set(key, value.clone());
        self.set(key, value);
    }

    /// It failed, by the code of its error.
    pub(crate) fn fail(&self, code: &str) {
        self.trace.change(self.place, |span| span.fail(code));
        self.end();
    }

    /// It failed, and the request with it.
    pub(crate) fn fail_both(&self, code: &str) {
        self.trace.fail(code);
        self.fail(code);
    }

    /// It succeeded.
    pub(crate) fn end(&self) {
        if let RequestTrace::Recorded(recording) = &self.trace {
            let now = recording.now_ns();
            self.trace.change(self.place, |span| {
                if span.end_ns == 0 {
                    span.end_ns = now;
                }
            });
        }
    }

    /// Sends an upstream the parent of its spans.
    pub(crate) fn pass_on(&self, headers: &mut HeaderMap) {
        if let RequestTrace::Recorded(recording) = &self.trace {
            let span_id = recording.spans.lock().expect(NOT_POISONED)[self.place].id;
            let trace_id = recording.trace_id;
            let context = TraceContext { trace_id, span_id, is_sampled: true };
            headers.insert(&TRACEPARENT, context.header());
        }
    }
}

impl Drop for ChildSpan {
    fn drop(&mut self) {
        if let RequestTrace::Recorded(recording) = &self.trace {
            let has_ended = recording.spans.lock().expect(NOT_POISONED)[self.place].end_ns > 0;
            if !has_ended {
                self.fail("cancelled");
            }
        }
    }
}

/// By the trace's id, so that all gateways decide alike.
fn is_sampled(trace_id: u128, ratio: f64) -> bool {
    // The last 7 bytes are what the standard calls random.
    let share = (trace_id & ((1 << 56) - 1)) as f64 / (1_u64 << 56) as f64;
    share < ratio
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn settings(sample_ratio: f64) -> SpanSettings {
        let endpoint = Some("http://127.0.0.1:1/v1/traces".parse().unwrap());
        SpanSettings { endpoint, sample_ratio, max_waiting: 100 }
    }

    fn begin(
        settings: &SpanSettings,
        parent: Option<&'static str>,
    ) -> (Arc<SpanQueue>, RequestTrace) {
        let queue = Arc::new(SpanQueue::default());
        queue.configure(settings);
        let mut headers = HeaderMap::new();
        if let Some(parent) = parent {
            headers.insert(&TRACEPARENT, HeaderValue::from_static(parent));
        }
        let trace = RequestTrace::begin(&queue, settings, &headers, || "POST /x".to_owned());
        (queue, trace)
    }

    #[test]
    fn spans_of_a_request_are_a_tree_inside_its_time_and_leave_with_it() {
        let parent = "00-000000000000000000000000000000ab-00000000000000cd-01";
        let (queue, trace) = begin(&settings(0.0), Some(parent));
        let queued = trace.child(SpanKind::Internal, || "queue".to_owned());
        queued.end();
        let attempt = trace.child(SpanKind::Client, || "chat m".to_owned());
        let mut headers = HeaderMap::new();
        attempt.pass_on(&mut headers);
        attempt.set_both("gen_ai.usage.output_tokens", 7_u64);
        drop(trace);
        assert!(queue.take(100).is_none(), "an answer is still on its way");
        drop((queued, attempt));
        let taken = queue.take(100).unwrap();
        let [(0xab, server), (_, queued), (_, attempt)] = &taken[..] else { panic!("{taken:?}") };
        assert_eq!(server.parent_id, 0xcd);
        assert_eq!(TraceContext::of(&headers).unwrap().span_id, attempt.id);
        for child in [queued, attempt] {
            assert_eq!(child.parent_id, server.id);
            assert!(server.start_ns <= child.start_ns && child.end_ns <= server.end_ns);
        }
        assert_eq!(queued.error, None);
        assert_eq!(attempt.error.as_deref(), Some("cancelled"));
        assert_eq!(server.attributes, [("gen_ai.usage.output_tokens", Value::Integer(7))]);
    }

    #[test]
    fn the_client_decides_and_otherwise_the_ratio() {
        let unsampled = "00-000000000000000000000000000000ab-00000000000000cd-00";
        assert!(matches!(begin(&settings(1.0), Some(unsampled)).1, RequestTrace::PassOn));
        assert!(matches!(begin(&settings(1.0), None).1, RequestTrace::Recorded(_)));
        let (_, trace) = begin(&settings(0.0), None);
        let mut headers = HeaderMap::new();
        trace.pass_on(&HeaderMap::new(), &mut headers);
        assert!(!TraceContext::of(&headers).unwrap().is_sampled);
        let off = SpanSettings { endpoint: None, ..settings(1.0) };
        assert!(matches!(begin(&off, None).1, RequestTrace::PassOn));
        let kept = (0..1000_u128).filter(|n| is_sampled((n << 46) | 1, 0.25)).count();
        assert_eq!(kept, 250 + 6, "a quarter of the 1024 blocks");
    }
}
