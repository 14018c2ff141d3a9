//! What readers refuse.

use std::io;

/// Spans that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Text that is not JSON, or JSON of another form.
    #[error("span JSON: {reason}")]
    Json {
        /// What is wrong, with line and column.
        reason: String,
    },
    /// Bytes that are not an OTLP message.
    #[error("OTLP protobuf, byte {offset}: {reason}")]
    Protobuf {
        /// Place in the unpacked input, counted from zero.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// Another format than the caller expects.
    #[error("the input is {found}, not {expected}: give --format {found}, or leave it out")]
    OtherFormat {
        /// What it looks like.
        found: &'static str,
        /// What the caller asked for.
        expected: &'static str,
    },
    /// Nothing to tell a format by.
    #[error("the input is empty: expected Jaeger or Zipkin v2 JSON, or OTLP protobuf or JSON")]
    Empty,
    /// The source failed.
    #[error("failed to read spans: {0}")]
    Io(#[from] io::Error),
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
