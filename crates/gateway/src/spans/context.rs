//! W3C Trace Context: the place of a span in its trace, as `traceparent` carries it.

use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) static TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// A span that has children elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceContext {
    /// Not zero.
    pub(crate) trace_id: u128,
    /// Not zero.
    pub(crate) span_id: u64,
    /// Whether the service that began the trace keeps its spans.
    pub(crate) is_sampled: bool,
}

impl TraceContext {
    /// Of a request. A header that is wrong or there twice counts as absent, as the standard has it.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut given = headers.get_all(&TRACEPARENT).iter();
        let header = given.next().filter(|_| given.next().is_none())?;
        Self::parse(header.to_str().ok()?)
    }

    fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let version = hexadecimal(parts.next()?, 2)?;
        let trace_id = hexadecimal(parts.next()?, 32)?;
        let span_id = u64::try_from(hexadecimal(parts.next()?, 16)?).ok()?;
        let flags = hexadecimal(parts.next()?, 2)?;
        // Later versions may say more behind the flags; ff is no version.
        let is_known = version != 0xff && (version > 0 || parts.next().is_none());
        (is_known && trace_id != 0 && span_id != 0).then_some(Self {
            trace_id,
            span_id,
            is_sampled: flags & 1 == 1,
        })
    }

    pub(crate) fn header(self) -> HeaderValue {
        let Self { trace_id, span_id, is_sampled } = self;
        let text = format!("00-{trace_id:032x}-{span_id:016x}-{:02x}", u8::from(is_sampled));
        HeaderValue::from_str(&text).expect("hexadecimal digits")
    }
}

/// Exactly so many digits, in lower case.
fn hexadecimal(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_number = text.len() == digits && text.bytes().all(is_digit);
    u128::from_str_radix(text, 16).ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_written_as_it_was_read() {
        let context = TraceContext::parse(HEADER).unwrap();
        assert_eq!(context.span_id, 0x00f0_67aa_0ba9_02b7);
        assert!(context.is_sampled);
        assert_eq!(context.header(), HEADER);
        let later = TraceContext::parse(&format!("cc{}-what-else", &HEADER[2..]));
        assert_eq!(later, Some(context));
    }

    #[test]
    fn what_the_standard_calls_invalid_is_no_context() {
        for wrong in [
            "",
            "00",
            &HEADER.to_ascii_uppercase(),
            &format!("ff{}", &HEADER[2..]),
            &format!("{HEADER}-00"),
            &HEADER.replace("00f067aa0ba902b7", "0000000000000000"),
            &HEADER.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &HEADER[..54],
            &HEADER.replace("-01", "-+1"),
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
        let mut twice = HeaderMap::new();
        twice.append(&TRACEPARENT, HeaderValue::from_static(HEADER));
        assert!(TraceContext::of(&twice).is_some());
        twice.append(&TRACEPARENT, HeaderValue::from_static(HEADER));
        assert!(TraceContext::of(&twice).is_none());
    }
}
