//! How fast spans become critical paths.

use std::time::Instant;

use homeostat_core::{SeedTree, Stream};
use homeostat_lab::{Error, Result};
use homeostat_spans::read::read_spans;
use homeostat_spans::{AnalysisOptions, CriticalPaths, SpanLimits, SpanStore, TimeRange};
use serde::Serialize;

use super::sim::{best_of, peak_megabytes};

/// What to time.
#[derive(Debug, Clone)]
pub struct SpansBench {
    /// Spans of the many traces, and of the one large trace.
    pub spans: usize,
}

/// What was timed, on one core.
#[derive(Debug, Clone, Serialize)]
pub struct SpansReport {
    /// Spans per second.
    pub spans_per_s: SpanSpeeds,
    /// Seconds from the bytes of one trace of a million spans to its critical path; with fewer
    /// spans, extrapolated.
    pub million_span_trace_s: f64,
    /// Largest size of this process, with the input in memory.
    pub peak_mb: f64,
    /// Spans that were timed.
    pub spans: usize,
    /// Mean size of a span in bytes.
    pub bytes_per_span: f64,
}

/// Spans per second.
#[derive(Debug, Clone, Serialize)]
pub struct SpanSpeeds {
    /// From bytes in memory (OTLP protobuf, traces of 24 spans) to critical paths.
    pub memory: f64,
    /// The reading alone.
    pub parse: f64,
}

/// Spans of a trace, as many as CRISP reports for its mean trace.
const SPANS_PER_TRACE: usize = 24;

/// Spans of one message: about what a collector sends at once.
const SPANS_PER_MESSAGE: usize = 512;

const SERVICES: usize = 12;

impl SpansBench {
    /// Runs everything; `progress` hears what is being timed.
    pub fn run(&self, mut progress: impl FnMut(&str)) -> Result<SpansReport> {
        progress("making traces of 24 spans");
        let input = many_traces(self.spans);
        let bytes_per_span = input.len() as f64 / self.spans as f64;
        progress("reading them");
        let parse = best_of(3, || {
            let start = Instant::now();
            let store = read(&input)?;
            Ok(store.len() as f64 / start.elapsed().as_secs_f64())
        })?;
        progress("reading them and finding critical paths");
        let memory = best_of(3, || Ok(self.spans as f64 / seconds(&input, self.spans)?))?;
        drop(input);
        progress("one trace");
        let input = one_trace(self.spans);
        let speed = best_of(3, || Ok(self.spans as f64 / seconds(&input, 1)?))?;
        Ok(SpansReport {
            spans_per_s: SpanSpeeds { memory, parse },
            million_span_trace_s: 1e6 / speed,
            peak_mb: peak_megabytes(),
            spans: self.spans,
            bytes_per_span,
        })
    }
}

impl SpansReport {
    /// One row for each figure, for a table.
    pub fn rows(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("spans_per_s.memory", self.spans_per_s.memory),
            ("spans_per_s.parse", self.spans_per_s.parse),
            ("million_span_trace_s", self.million_span_trace_s),
            ("peak_mb", self.peak_mb),
        ]
    }
}

fn read(mut input: &[u8]) -> Result<SpanStore> {
    let mut store = SpanStore::new(SpanLimits::default());
    read_spans(&mut input, None, &mut store)
        .map_err(|error| Error::Curves { reason: error.to_string() })?;
    Ok(store)
}

/// Wall-clock seconds from bytes to critical paths; checks that there are requests.
fn seconds(input: &[u8], min_spans: usize) -> Result<f64> {
    let start = Instant::now();
    let mut store = read(input)?;
    let options = AnalysisOptions::default();
    let (paths, _) = CriticalPaths::analyse(&mut store, &options, &[TimeRange::ALL]);
    let elapsed = start.elapsed().as_secs_f64();
    let is_done = store.len() >= min_spans && paths.iter().all(|paths| paths.requests > 0);
    match is_done {
        true => Ok(elapsed),
        false => Err(Error::Curves { reason: "no critical paths were found".to_owned() }),
    }
}

/// A tree of calls: nested, sequential and parallel children.
fn many_traces(spans: usize) -> Vec<u8> {
    let mut rng = SeedTree::new(1).stream("bench/spans");
    let mut writer = OtlpWriter::default();
    let mut made = 0;
    let mut trace = 0u64;
    while made < spans {
        trace += 1;
        let count = SPANS_PER_TRACE.min(spans - made);
        write_trace(&mut writer, trace, count, &mut rng);
        made += count;
    }
    writer.finish()
}

fn one_trace(spans: usize) -> Vec<u8> {
    let mut writer = OtlpWriter::default();
    write_trace(&mut writer, 1, spans, &mut SeedTree::new(1).stream("bench/spans"));
    writer.finish()
}

/// Span `k` is called by span `(k - 1) / 3`. Of three children, the first runs before the other
/// two, which overlap.
fn write_trace(writer: &mut OtlpWriter, trace: u64, count: usize, rng: &mut Stream) {
    let mut times: Vec<(u64, u64)> = Vec::with_capacity(count);
    for index in 0..count {
        let (start, end) = match index {
            0 => (1_700_000_000_000_000_000 + trace * 1_000_000, 1 << 40),
            _ => {
                let (start, length) = times[(index - 1) / 3];
                let third = length / 3;
                let jitter = rng.below(1 + (third / 8).min(1 << 20) as usize) as u64;
                match (index - 1) % 3 {
                    0 => (start + jitter, third - jitter),
                    1 => (start + third, third + jitter),
                    _ => (start + third + jitter, third + third / 2),
                }
            }
        };
        times.push((start, end));
        let parent = if index == 0 { 0 } else { span_id(trace, (index - 1) / 3) };
        writer.span(&BenchSpan {
            trace,
            id: span_id(trace, index),
            parent,
            operation: index % (2 * SERVICES),
            start,
            end: start + end,
        });
    }
}

fn span_id(trace: u64, index: usize) -> u64 {
    // An odd factor keeps ids distinct and scatters them, as random ids are.
    (trace << 24 | (index as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

struct BenchSpan {
    trace: u64,
    id: u64,
    parent: u64,
    operation: usize,
    start: u64,
    end: u64,
}

/// Writes OTLP messages, each with the spans of one service.
#[derive(Default)]
struct OtlpWriter {
    bytes: Vec<u8>,
    batches: Vec<(usize, Vec<u8>)>,
}

impl OtlpWriter {
    fn span(&mut self, span: &BenchSpan) {
        self.batches.resize(SERVICES, (0, Vec::new()));
        let service = span.operation % SERVICES;
        let mut message = Vec::with_capacity(256);
        bytes_field(&mut message, 1, &u128::from(span.trace).to_be_bytes());
        bytes_field(&mut message, 2, &span.id.to_be_bytes());
        if span.parent != 0 {
            bytes_field(&mut message, 4, &span.parent.to_be_bytes());
        }
        let operation = format!("/api/v1/operation-{}", span.operation);
        bytes_field(&mut message, 5, operation.as_bytes());
        message.extend([6 << 3, 1]);
        for (number, time) in [(7, span.start), (8, span.end)] {
            message.push(number << 3 | 1);
            message.extend(time.to_le_bytes());
        }
        for (key, value) in
            [("http.request.method", "GET"), ("http.route", &operation), ("net.peer.name", "cart")]
        {
            let mut attribute = Vec::new();
            bytes_field(&mut attribute, 1, key.as_bytes());
            let mut text = Vec::new();
            bytes_field(&mut text, 1, value.as_bytes());
            bytes_field(&mut attribute, 2, &text);
            bytes_field(&mut message, 9, &attribute);
        }
        let (count, batch) = &mut self.batches[service];
        bytes_field(batch, 2, &message);
        *count += 1;
        if *count >= SPANS_PER_MESSAGE {
            self.flush(service);
        }
    }

    fn flush(&mut self, service: usize) {
        let (_, spans) = std::mem::take(&mut self.batches[service]);
        if spans.is_empty() {
            return;
        }
        let (mut text, mut attribute, mut resource) = (Vec::new(), Vec::new(), Vec::new());
        bytes_field(&mut text, 1, format!("service-{service}").as_bytes());
        bytes_field(&mut attribute, 1, b"service.name");
        bytes_field(&mut attribute, 2, &text);
        bytes_field(&mut resource, 1, &attribute);
        let mut message = Vec::new();
        bytes_field(&mut message, 1, &resource);
        bytes_field(&mut message, 2, &spans);
        bytes_field(&mut self.bytes, 1, &message);
    }

    fn finish(mut self) -> Vec<u8> {
        for service in 0..self.batches.len() {
            self.flush(service);
        }
        self.bytes
    }
}

/// A field of bytes in protobuf.
fn bytes_field(message: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    message.push(number << 3 | 2);
    let mut length = bytes.len();
    while length >= 0x80 {
        message.push(length as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend(bytes);
}
