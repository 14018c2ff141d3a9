//! One span, as readers hand it over and as it is stored.

use crate::NameId;
use crate::store::OperationId;

/// Role of a span in a call, as OpenTelemetry names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SpanKind {
    /// Work inside a service, or not said.
    #[default]
    Internal,
    /// Handles a remote call.
    Server,
    /// Makes a remote call and waits for its answer.
    Client,
    /// Sends a message and does not wait.
    Producer,
    /// Handles a message.
    Consumer,
}

impl SpanKind {
    /// The kind of this name, in any case: `server`, `SERVER`, `SPAN_KIND_SERVER`.
    pub(crate) fn by_name(name: &str) -> Self {
        let name = name.strip_prefix("SPAN_KIND_").unwrap_or(name);
        let is = |kind: &str| name.eq_ignore_ascii_case(kind);
        match () {
            () if is("server") => Self::Server,
            () if is("client") => Self::Client,
            () if is("producer") => Self::Producer,
            () if is("consumer") => Self::Consumer,
            () => Self::Internal,
        }
    }

    /// The kind of this number in OTLP.
    pub(crate) fn by_number(number: u64) -> Self {
        match number {
            2 => Self::Server,
            3 => Self::Client,
            4 => Self::Producer,
            5 => Self::Consumer,
            _ => Self::Internal,
        }
    }
}

/// A span as a reader found it. Zero stands for an id that is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewSpan {
    /// The request it belongs to.
    pub trace_id: u128,
    /// Its own id; unique in the trace, except that the two sides of a call may share one.
    pub span_id: u64,
    /// The span that caused it; zero for a root.
    pub parent_id: u64,
    /// The service.
    pub service: NameId,
    /// The replica of the service: its clock is its own.
    pub instance: NameId,
    /// What the service did.
    pub operation: NameId,
    /// Nanoseconds since 1970.
    pub start_ns: u64,
    /// Nanoseconds since 1970; may be wrong, even before the start.
    pub end_ns: u64,
    /// Its role.
    pub kind: SpanKind,
    /// Whether it failed.
    pub is_error: bool,
    /// Whether its parent does not wait for it, as `FOLLOWS_FROM` of OpenTracing says.
    pub follows_from: bool,
}

/// A span as it is stored: 48 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) id: u64,
    pub(crate) parent_id: u64,
    /// Nanoseconds since 1970, at most [`MAX_NS`].
    pub(crate) start_ns: i64,
    /// At most [`MAX_NS`].
    pub(crate) duration_ns: i64,
    pub(crate) trace: u32,
    pub(crate) operation: OperationId,
    pub(crate) instance: NameId,
    pub(crate) kind: SpanKind,
    pub(crate) is_error: bool,
    pub(crate) follows_from: bool,
}

/// Largest time (the year 2043) and duration (73 years): sums of three of them fit in 64 bits.
pub(crate) const MAX_NS: i64 = 1 << 61;

impl Span {
    /// Ids of the two sides of one call may be equal (Zipkin): with the side, they differ.
    pub(crate) fn key(&self) -> (u64, bool) {
        (self.id, self.kind == SpanKind::Server)
    }
}
