//! The formats, well formed and not.

use homeostat_spans::read::{Format, read_spans};
use homeostat_spans::{Error, SpanLimits, SpanStore};

use crate::builder::{analyse, steps};

pub(crate) fn read_text(text: &str) -> Result<SpanStore, Error> {
    read_bytes(text.as_bytes(), None).map(|(store, _)| store)
}

fn read_bytes(mut bytes: &[u8], expected: Option<Format>) -> Result<(SpanStore, Format), Error> {
    let mut store = SpanStore::new(SpanLimits::default());
    let format = read_spans(&mut bytes, expected, &mut store)?;
    Ok((store, format))
}

/// The same request in every format: `shop` takes 10 ms, of which `db` takes 6.
const JAEGER: &str = r#"{"data":[{"traceID":"ab","spans":[
  {"traceID":"ab","spanID":"2","operationName":"query","startTime":1002000,"duration":6000,"processID":"p2","tags":[
     {"key":"span.kind","type":"string","value":"server"},{"key":"n","value":[{"deep":1}]}],
   "references":[{"refType":"CHILD_OF","traceID":"ab","spanID":"1","span":{"nested":{"references":[]}}}]},
  {"traceID":"ab","spanID":"1","operationName":"get","startTime":1000000,"duration":10000,"processID":"p1","references":[],"logs":[]}],
  "processes":{"p1":{"serviceName":"shop","tags":[{"key":"hostname","value":"a"}]},"p2":{"serviceName":"db"}}}],
  "total":0,"errors":null}"#;

const ZIPKIN: &str = r#"[[{"traceId":"000000000000000000000000000000ab","id":"0000000000000001","name":"get",
   "timestamp":1000000,"duration":10000,"localEndpoint":{"serviceName":"shop","ipv4":"10.0.0.1"}},
  {"traceId":"000000000000000000000000000000ab","parentId":"0000000000000001","id":"0000000000000002","kind":"SERVER",
   "name":"query","timestamp":1002000,"duration":6000,"localEndpoint":{"serviceName":"db"},"shared":true}]]"#;

const OTLP_JSON: &str = r#"{"resourceSpans":[{"scopeSpans":[{"scope":{},"spans":[
   {"traceId":"000000000000000000000000000000ab","spanId":"0000000000000001","name":"get","kind":1,
    "startTimeUnixNano":"1000000000","endTimeUnixNano":"1010000000","attributes":[],"status":{}}]}],
  "resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}},{"key":"n","value":{"intValue":"3"}}]}}]}
 {"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"db"}}]},"scopeSpans":[{"spans":[
   {"traceId":"000000000000000000000000000000AB","spanId":"0000000000000002","parentSpanId":"0000000000000001","name":"query",
    "kind":"SPAN_KIND_SERVER","startTimeUnixNano":1002000000,"endTimeUnixNano":1008000000,"status":{"code":2}}]}]}]}"#;

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 1 << 14);
    let mut message = vec![number << 3 | 2];
    match bytes.len() {
        short if short < 128 => message.push(short as u8),
        long => message.extend([long as u8 | 0x80, (long >> 7) as u8]),
    }
    message.extend(bytes);
    message
}

fn otlp_span(id: u64, parent: u64, name: &str, start_ms: u64, end_ms: u64) -> Vec<u8> {
    let mut span = field(1, &0xab_u128.to_be_bytes());
    span.extend(field(2, &id.to_be_bytes()));
    if parent > 0 {
        span.extend(field(4, &parent.to_be_bytes()));
    }
    span.extend(field(5, name.as_bytes()));
    span.extend([6 << 3, 2]);
    for (number, ms) in [(7, start_ms), (8, end_ms)] {
        span.push(number << 3 | 1);
        span.extend((ms * 1_000_000).to_le_bytes());
    }
    span.extend(field(15, &[3 << 3, 2]));
    span
}

fn resource_spans(service: &str, spans: &[Vec<u8>]) -> Vec<u8> {
    let attribute = [field(1, b"service.name"), field(2, &field(1, service.as_bytes()))].concat();
    let spans: Vec<u8> = spans.iter().flat_map(|span| field(2, span)).collect();
    [field(1, &field(1, &attribute)), field(2, &spans)].concat()
}

fn otlp() -> Vec<u8> {
    let shop = resource_spans("shop", &[otlp_span(1, 0, "get", 1000, 1010)]);
    let db = resource_spans("db", &[otlp_span(2, 1, "query", 1002, 1008)]);
    [field(1, &shop), field(1, &db)].concat()
}

fn with_length(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes(), message].concat()
}

#[test]
fn every_format_gives_the_same_spans() {
    let framed = [with_length(&otlp()), with_length(&[])].concat();
    let inputs: [(&[u8], Format); 5] = [
        (JAEGER.as_bytes(), Format::Jaeger),
        (ZIPKIN.as_bytes(), Format::Zipkin),
        (OTLP_JSON.as_bytes(), Format::Otlp),
        (&otlp(), Format::Otlp),
        (&framed, Format::Otlp),
    ];
    for (bytes, format) in inputs {
        let (mut store, found) = read_bytes(bytes, Some(format)).unwrap();
        assert_eq!((found, store.len(), store.traces()), (format, 2, 1), "{format}");
        let (paths, defects) = analyse(&mut store, 1);
        assert!(defects.is_empty(), "{format}: {defects:?}");
        let report = &paths.operations[0];
        assert_eq!((report.service.as_str(), report.requests), ("shop", 1), "{format}");
        assert_eq!(steps(report), [("get", 4.0), ("query", 6.0)], "{format}");
        assert_eq!(report.steps[1].service, "db", "{format}");
    }
}

#[test]
fn white_space_and_a_byte_order_mark_may_come_first() {
    assert_eq!(read_text(&format!("\n\n {ZIPKIN}")).unwrap().len(), 2);
    assert_eq!(read_text(&format!("\u{feff}{JAEGER}")).unwrap().len(), 2);
}

#[test]
fn nothing_found_is_no_error() {
    assert!(read_text(r#"{"data":[]}"#).unwrap().is_empty());
    assert!(read_text(r#"{"data":null}"#).unwrap().is_empty());
    assert!(read_text("[]").unwrap().is_empty());
    assert!(read_text(r#"{"resourceSpans":[{}]}"#).unwrap().is_empty());
}

#[test]
fn json_errors_name_the_place() {
    let check = |text: &str, expect: &[&str]| {
        let error = read_text(text).unwrap_err().to_string();
        for part in expect {
            assert!(error.contains(part), "{text}: {error}");
        }
    };
    check("{\"data\":\n[{]", &["line 2"]);
    check(&JAEGER[..200], &["EOF", "line"]);
    check(r#"{"a":1}"#, &["neither `data` (Jaeger) nor `resourceSpans`", "line 1"]);
    check(r#"[{"id":"1"}]"#, &["missing field `traceId`", "column"]);
    check(r#"[{"traceId":"xyz","id":"1"}]"#, &["\"xyz\" is not an id", "column"]);
    check(r#"[{"traceId":"1","id":"1","timestamp":"soon"}]"#, &["\"soon\" is not a whole number"]);
    check("[3]", &["a span, or a list of spans"]);
    check(&format!("{ZIPKIN} x"), &["line"]);
}

#[test]
fn protobuf_errors_name_the_byte() {
    let check = |bytes: &[u8], expect: &str| {
        let error = read_bytes(bytes, None).unwrap_err().to_string();
        assert!(error.contains(expect), "{bytes:?}: {error}");
    };
    check(b"", "the input is empty");
    check(b"traces", "byte 0: neither JSON nor an OTLP message");
    let whole = otlp();
    check(&whole[..whole.len() - 3], "are announced");
    check(&field(1, &[2 << 3 | 2, 100]), "byte 4: 100 bytes are announced, 0 are there");
    check(&field(1, &[2 << 3 | 7]), "wire type 7 of field 2 is unknown");
    check(&field(1, &[0, 0]), "0 is no field number");
    check(&field(1, &[0xff; 11]), "more than 64 bits");
    check(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "is longer than");
    let long_id = field(2, &field(2, &field(1, &[1; 17])));
    check(&field(1, &long_id), "trace_id has 17 bytes");
    let no_text = field(2, &field(2, &field(5, &[0xff])));
    check(&field(1, &no_text), "a name is not UTF-8");
}

#[test]
fn no_cut_and_no_flipped_byte_makes_a_reader_panic() {
    let inputs =
        [JAEGER.as_bytes().to_vec(), ZIPKIN.into(), OTLP_JSON.into(), otlp(), with_length(&otlp())];
    for input in inputs {
        for place in 0..input.len() {
            let _ = read_bytes(&input[..place], None);
            for flip in [0x01, 0x80, 0xff] {
                let mut broken = input.clone();
                broken[place] ^= flip;
                if let Ok((mut store, _)) = read_bytes(&broken, None) {
                    analyse(&mut store, 1);
                }
            }
        }
    }
}

#[test]
fn json_that_is_deeply_nested_where_nothing_is_read_overflows_no_stack() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let text = format!(r#"{{"x":{deep},"data":[]}}"#);
    assert!(read_text(&text).unwrap().is_empty());
    assert!(read_text(&deep).is_err());
}

#[test]
fn another_format_than_expected_is_refused_by_name() {
    let error = read_bytes(JAEGER.as_bytes(), Some(Format::Zipkin)).unwrap_err().to_string();
    assert_eq!(error, "the input is jaeger, not zipkin: give --format jaeger, or leave it out");
    assert!(read_bytes(&otlp(), Some(Format::Jaeger)).is_err());
    assert!(read_bytes(ZIPKIN.as_bytes(), Some(Format::Otlp)).is_err());
}
