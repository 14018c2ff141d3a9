//! OTLP as protobuf: `TracesData` or `ExportTraceServiceRequest`, which have one form.
//! Numbers of fields are those of opentelemetry-proto 1.x.

use std::io::{self, BufRead, Read};

use super::fields::instance_rank;
use super::protobuf::{MAX_VARINT, Message, Value};
use crate::{Error, NameId, NewSpan, Result, SpanKind, SpanStore};

/// Longest message of one resource: OTLP's servers take 4 MiB by default.
const MAX_MESSAGE: u64 = 1 << 28;

pub(super) fn read(input: &mut dyn BufRead, store: &mut SpanStore) -> Result<()> {
    let mut source = Source { input, offset: 0, buffer: Vec::new() };
    // A message begins with field 1; a length in four bytes, highest first, begins with zero.
    let has_lengths = source.input.fill_buf()?.first() == Some(&0);
    while !source.input.fill_buf()?.is_empty() {
        let start = source.offset;
        let length = match has_lengths {
            true => source.big_endian_length()?,
            false => {
                let tag = source.varint()?;
                if tag != (1 << 3 | 2) {
                    let reason = match start {
                        0 => "neither JSON nor an OTLP message, which begins with 0x0a".to_owned(),
                        _ => format!("expected field 1 (resource_spans), found tag {tag}"),
                    };
                    return Err(Error::Protobuf { offset: start, reason });
                }
                source.varint()?
            }
        };
        let message = source.message(length)?;
        if !has_lengths {
            read_resource_spans(message, store)?;
            continue;
        }
        for field in message.fields() {
            if let (1, Value::Bytes(resource_spans)) = field? {
                read_resource_spans(resource_spans, store)?;
            }
        }
    }
    Ok(())
}

/// The input with the number of bytes read.
struct Source<'a> {
    input: &'a mut dyn BufRead,
    offset: u64,
    buffer: Vec<u8>,
}

impl Source<'_> {
    fn varint(&mut self) -> Result<u64> {
        let start = self.offset;
        let mut value = 0;
        for index in 0..MAX_VARINT {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::Protobuf { offset: start, reason: "a number has more than 64 bits".to_owned() })
    }

    fn big_endian_length(&mut self) -> Result<u64> {
        Ok(u64::from(u32::from_be_bytes(self.array()?)))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        self.input.read_exact(&mut array).map_err(|error| self.cut_off(error))?;
        self.offset += N as u64;
        Ok(array)
    }

    /// The next bytes. Memory grows with what is there, not with what is announced.
    fn message(&mut self, length: u64) -> Result<Message<'_>> {
        let offset = self.offset;
        if length > MAX_MESSAGE {
            let reason = format!("a message of {length} bytes is longer than {MAX_MESSAGE}");
            return Err(Error::Protobuf { offset, reason });
        }
        self.buffer.clear();
        let found = (&mut *self.input).take(length).read_to_end(&mut self.buffer)?;
        if (found as u64) < length {
            let reason = format!("{length} bytes are announced, {found} are there");
            return Err(Error::Protobuf { offset, reason });
        }
        self.offset += length;
        Ok(Message { bytes: &self.buffer, offset })
    }

    fn cut_off(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::Protobuf { offset: self.offset, reason: "the message is cut off".to_owned() }
            }
            _ => error.into(),
        }
    }
}

fn read_resource_spans(message: Message, store: &mut SpanStore) -> Result<()> {
    let (mut service, mut instance) = (None, None);
    for field in message.fields() {
        if let (1, Value::Bytes(resource)) = field? {
            (service, instance) = read_resource(resource)?;
        }
    }
    let service = store.intern(service.unwrap_or_default());
    let instance = instance.map_or(service, |instance| store.intern(instance));
    for field in message.fields() {
        if let (2, Value::Bytes(scope_spans)) = field? {
            for field in scope_spans.fields() {
                if let (2, Value::Bytes(span)) = field? {
                    let span = read_span(span, service, instance, store)?;
                    store.push(&span);
                }
            }
        }
    }
    Ok(())
}

/// Service and instance of a resource.
fn read_resource(message: Message<'_>) -> Result<(Option<&str>, Option<&str>)> {
    let mut service = None;
    let mut instance: Option<(usize, &str)> = None;
    for field in message.fields() {
        let (1, Value::Bytes(attribute)) = field? else { continue };
        let (mut key, mut value) = ("", None);
        for field in attribute.fields() {
            match field? {
                (1, Value::Bytes(bytes)) => key = bytes.text()?,
                (2, Value::Bytes(bytes)) => value = Some(bytes),
                _ => {}
            }
        }
        let rank = instance_rank(key);
        if key != "service.name" && rank.is_none() {
            continue;
        }
        for field in value.into_iter().flat_map(Message::fields) {
            if let (1, Value::Bytes(text)) = field? {
                let text = text.text()?;
                match rank {
                    None => service = Some(text),
                    Some(rank) if instance.is_none_or(|(other, _)| rank < other) => {
                        instance = Some((rank, text));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    Ok((service, instance.map(|(_, text)| text)))
}

fn read_span(
    message: Message,
    service: NameId,
    instance: NameId,
    store: &mut SpanStore,
) -> Result<NewSpan> {
    let mut name = "";
    let mut span = NewSpan {
        trace_id: 0,
        span_id: 0,
        parent_id: 0,
        service,
        instance,
        operation: service,
        start_ns: 0,
        end_ns: 0,
        kind: SpanKind::Internal,
        is_error: false,
        follows_from: false,
    };
    for field in message.fields() {
        match field? {
            (1, Value::Bytes(id)) => span.trace_id = big_endian(id, 16, "trace_id")?,
            (2, Value::Bytes(id)) => span.span_id = big_endian(id, 8, "span_id")? as u64,
            (4, Value::Bytes(id)) => span.parent_id = big_endian(id, 8, "parent_span_id")? as u64,
            (5, Value::Bytes(text)) => name = text.text()?,
            (6, Value::Varint(kind)) => span.kind = SpanKind::by_number(kind),
            (7, Value::Fixed64(ns)) => span.start_ns = ns,
            (8, Value::Fixed64(ns)) => span.end_ns = ns,
            (15, Value::Bytes(status)) => {
                for field in status.fields() {
                    if let (3, Value::Varint(code)) = field? {
                        span.is_error = code == 2;
                    }
                }
            }
            _ => {}
        }
    }
    span.operation = store.intern(name);
    Ok(span)
}

/// An id of at most this many bytes; none is zero.
fn big_endian(id: Message, most: usize, name: &str) -> Result<u128> {
    if id.bytes.len() > most {
        let reason = format!("{name} has {} bytes, not {most}", id.bytes.len());
        return Err(id.error(reason));
    }
    Ok(id.bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte)))
}
