//! Readers of spans, over anything that can be read. They stream: memory follows the number of
//! spans that are kept, not the size of the input. Syntax errors and values of wrong types end
//! the reading and name the place; spans that make no sense are kept out or repaired, and counted.

mod fields;
mod jaeger;
mod json;
mod otlp;
mod otlp_json;
mod protobuf;
mod zipkin;

use std::fmt;
use std::io::BufRead;

use crate::{Error, Result, SpanStore};

/// A form of spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON as Jaeger's API and its user interface export it.
    Jaeger,
    /// JSON of version 2 of Zipkin's API: spans, or lists of spans by trace.
    Zipkin,
    /// The OpenTelemetry protocol: protobuf, plain or with lengths before messages as the
    /// collector's file exporter writes it, or JSON, one message or one per line.
    Otlp,
}

impl Format {
    /// The name as users give it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jaeger => "jaeger",
            Self::Zipkin => "zipkin",
            Self::Otlp => "otlp",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Reads all spans of an input into the store and returns its format, which its content tells.
/// With `expected`, another format is an error.
pub fn read_spans(
    input: &mut dyn BufRead,
    expected: Option<Format>,
    store: &mut SpanStore,
) -> Result<Format> {
    let first = input.fill_buf()?.first().copied();
    match first {
        None => Err(Error::Empty),
        Some(b'{' | b'[' | b' ' | b'\t' | b'\r' | 0xef) => json::read(input, expected, store),
        // A line feed is the first byte of a protobuf message as well.
        Some(b'\n') if starts_json(input.fill_buf()?) => json::read(input, expected, store),
        Some(_) => {
            check_expected(Format::Otlp, expected)?;
            otlp::read(input, store)?;
            Ok(Format::Otlp)
        }
    }
}

/// Whether the first byte that is no white space begins a JSON object or list. A protobuf message
/// begins with a line feed and the length of what follows; that follows with a line feed as well,
/// or with 0x12.
fn starts_json(start: &[u8]) -> bool {
    let text = start.trim_ascii_start();
    let is_message = matches!(start, [b'\n', _, b'\n' | 0x12, ..]);
    !is_message && matches!(text.first(), Some(b'{' | b'['))
}

fn check_expected(found: Format, expected: Option<Format>) -> Result<()> {
    match expected {
        Some(expected) if expected != found => {
            Err(Error::OtherFormat { found: found.name(), expected: expected.name() })
        }
        _ => Ok(()),
    }
}
