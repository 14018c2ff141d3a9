//! OTLP's messages for spans, as far as the gateway fills them in. Numbers of fields are those of
//! opentelemetry-proto 1.x.
//!
//! `prost` alone, which the workspace has anyway: the OpenTelemetry SDK would bring its own queue,
//! batches, timers and HTTP client, which are here already.

use prost::Message;

use super::request::{Span, SpanKind, Value};

/// What a collector is sent.
#[derive(Clone, PartialEq, Message)]
struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

const STATUS_ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "AnyValueKind", tags = "1, 3, 4")]
    value: Option<AnyValueKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum AnyValueKind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Integer(i64),
    #[prost(double, tag = "4")]
    Number(f64),
}

/// What a collector answers.
#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// The body of a request to a collector.
pub(crate) fn encode(spans: impl Iterator<Item = (u128, Span)>) -> Vec<u8> {
    let text = |key: &str, value: &str| KeyValue::new(key, Value::Text(value.to_owned()));
    let resource = Resource {
        attributes: vec![
            text("service.name", "homeostat-gateway"),
            text("service.version", env!("CARGO_PKG_VERSION")),
            text("service.instance.id", &std::process::id().to_string()),
        ],
    };
    let scope = Scope {
        name: "homeostat-gateway".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let spans = spans.map(|(trace_id, span)| SpanMessage::new(trace_id, span)).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    let resource_spans = vec![ResourceSpans { resource: Some(resource), scope_spans }];
    ExportRequest { resource_spans }.encode_to_vec()
}

/// How many spans a collector refused of those that it took, and why. An empty answer is a full success.
pub(crate) fn rejected(answer: &[u8]) -> (u64, String) {
    let answer = ExportResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
    let PartialSuccess { rejected_spans, error_message } = answer.unwrap_or_default();
    (u64::try_from(rejected_spans).unwrap_or(0), error_message)
}

impl KeyValue {
    fn new(key: &str, value: Value) -> Self {
        let value = match value {
            Value::Text(text) => AnyValueKind::Text(text),
            Value::Integer(integer) => AnyValueKind::Integer(integer),
            Value::Number(number) => AnyValueKind::Number(number),
        };
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }
}

impl SpanMessage {
    fn new(trace_id: u128, span: Span) -> Self {
        let id = |id: u64| if id == 0 { Vec::new() } else { id.to_be_bytes().to_vec() };
        let attributes = span.attributes.into_iter();
        Self {
            trace_id: trace_id.to_be_bytes().to_vec(),
            span_id: id(span.id),
            parent_span_id: id(span.parent_id),
            name: span.name,
            kind: match span.kind {
                SpanKind::Internal => 1,
                SpanKind::Server => 2,
                SpanKind::Client => 3,
            },
            start_time_unix_nano: span.start_ns,
            end_time_unix_nano: span.end_ns,
            attributes: attributes.map(|(key, value)| KeyValue::new(key, value)).collect(),
            status: span.error.map(|message| Status { message, code: STATUS_ERROR }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_with_its_ids_attributes_and_error() {
        let span = Span {
            id: 0xab,
            parent_id: 0,
            name: "chat m".to_owned(),
            kind: SpanKind::Client,
            start_ns: 5,
            end_ns: 7,
            attributes: vec![
                ("gen_ai.request.model", "m".into()),
                ("gen_ai.usage.output_tokens", 8_u64.into()),
                ("homeostat.time_to_first_token", 0.5.into()),
            ],
            error: Some("upstream_failed".to_owned()),
        };
        let bytes = encode([(0xcd, span)].into_iter());
        let request = ExportRequest::decode(&bytes[..]).unwrap();
        let spans = &request.resource_spans[0].scope_spans[0].spans;
        let [span] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(span.trace_id, [&[0; 15][..], &[0xcd]].concat());
        assert_eq!(span.span_id, [0, 0, 0, 0, 0, 0, 0, 0xab]);
        assert!(span.parent_span_id.is_empty());
        assert_eq!((span.kind, span.start_time_unix_nano, span.end_time_unix_nano), (3, 5, 7));
        let value = |place: usize| span.attributes[place].value.clone().unwrap().value.unwrap();
        assert_eq!(value(0), AnyValueKind::Text("m".to_owned()));
        assert_eq!(value(1), AnyValueKind::Integer(8));
        assert_eq!(value(2), AnyValueKind::Number(0.5));
        assert_eq!(span.status.as_ref().map(|status| status.code), Some(STATUS_ERROR));
    }

    #[test]
    fn what_a_collector_rejects_is_read_and_an_empty_answer_is_a_success() {
        assert_eq!(rejected(&[]), (0, String::new()));
        assert_eq!(rejected(b"not protobuf"), (0, String::new()));
        let partial = PartialSuccess { rejected_spans: 3, error_message: "full".to_owned() };
        let answer = ExportResponse { partial_success: Some(partial) }.encode_to_vec();
        assert_eq!(rejected(&answer), (3, "full".to_owned()));
    }
}
