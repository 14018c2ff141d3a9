//! OpenTelemetry spans: what happened to a request and when, sent as OTLP over HTTP.
//!
//! A request has a server span, with a child for each wait in the queue ([`request`]) and one for each
//! attempt at an upstream, which gets the id of its span in `traceparent` ([`context`]). Finished
//! requests wait in a bounded queue until a task sends them in batches ([`export`], as [`otlp`] writes
//! them): a receiver that hangs costs spans, which are counted, and never a request.

pub(crate) mod context;
pub(crate) mod export;
pub(crate) mod otlp;
pub(crate) mod request;

pub(crate) use self::export::SpanQueue;
pub(crate) use self::request::{ChildSpan, RequestTrace};
