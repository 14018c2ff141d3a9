//! Where the body of an answer ends: RFC 9112, section 6.3.

use http::{HeaderMap, StatusCode, Version, header};
use hyper::body::Bytes;

/// Extensions of one chunk and all trailers are no longer than this.
const MAX_OVERHEAD: usize = 16 * 1024;

/// What is left of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks, up to one without data.
    Chunked(Chunks),
    /// All until the connection is closed.
    UntilClose,
    /// Nothing.
    Ended,
}

/// The next step of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A part of the body.
    Data(Bytes),
    /// What came is used up.
    NeedsMore,
    /// The body is complete; what is left of what came does not belong to it.
    Ended,
}

/// What a server sent is no HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(super) &'static str);

/// The state between two bytes of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunks {
    state: ChunkState,
    /// Bytes left of a chunk, or its length as far as it has been read.
    left: u64,
    /// Bytes of this extension or of all trailers.
    overhead: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// No digit yet.
    FirstDigit,
    Digits,
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    /// At the start of a line behind the last chunk.
    TrailerStart,
    Trailer,
    TrailerLineFeed,
    LastLineFeed,
}

impl Framing {
    /// Of an answer to a GET or POST, and whether the connection can be used again after it.
    pub(super) fn of(
        status: StatusCode,
        version: Version,
        headers: &HeaderMap,
    ) -> Result<(Self, bool), Malformed> {
        let says =
            |name: header::HeaderName, wanted: &str| {
                headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).any(|value| {
                    value.split(',').any(|part| part.trim().eq_ignore_ascii_case(wanted))
                })
            };
        let stays_open = version == Version::HTTP_11 && !says(header::CONNECTION, "close");
        if matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Ok((Self::Ended, stays_open));
        }
        let encoding = headers.get_all(header::TRANSFER_ENCODING).iter().next_back();
        if let Some(encoding) = encoding {
            let last = encoding.to_str().ok().and_then(|encoding| encoding.rsplit(',').next());
            let is_chunked = last.is_some_and(|last| last.trim().eq_ignore_ascii_case("chunked"));
            if headers.get_all(header::TRANSFER_ENCODING).iter().count() > 1
                || (is_chunked && encoding.as_bytes().contains(&b','))
            {
                return Err(Malformed("it uses a transfer encoding other than chunked"));
            }
            // A length beside it is a sign of two servers that disagree: nothing comes after this.
            let stays_open = stays_open && !headers.contains_key(header::CONTENT_LENGTH);
            return Ok(match is_chunked {
                true => (Self::Chunked(Chunks::default()), stays_open),
                false => (Self::UntilClose, false),
            });
        }
        let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
        let Some(first) = lengths.next() else { return Ok((Self::UntilClose, false)) };
        if lengths.any(|other| other != first) {
            return Err(Malformed("it has two lengths"));
        }
        let digits = first.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let length = digits.and_then(|digits| digits.parse().ok());
        let length = length.ok_or(Malformed("its content-length is no length"))?;
        Ok((if length == 0 { Self::Ended } else { Self::Length(length) }, stays_open))
    }

    /// Takes the next part of the body off what came.
    pub(super) fn step(&mut self, input: &mut Bytes) -> Result<Step, Malformed> {
        match self {
            Self::Ended => Ok(Step::Ended),
            _ if input.is_empty() => Ok(Step::NeedsMore),
            Self::UntilClose => Ok(Step::Data(std::mem::take(input))),
            Self::Length(left) => {
                let data = take(input, *left);
                *left -= data.len() as u64;
                if *left == 0 {
                    *self = Self::Ended;
                }
                Ok(Step::Data(data))
            }
            Self::Chunked(chunks) => {
                let step = chunks.step(input)?;
                if step == Step::Ended {
                    *self = Self::Ended;
                }
                Ok(step)
            }
        }
    }
}

impl Default for Chunks {
    fn default() -> Self {
        Self { state: ChunkState::FirstDigit, left: 0, overhead: 0 }
    }
}

impl Chunks {
    fn step(&mut self, input: &mut Bytes) -> Result<Step, Malformed> {
        let mut used = 0;
        while let Some(byte) = input.get(used).copied() {
            if self.state == ChunkState::Data {
                let _ = input.split_to(used);
                let data = take(input, self.left);
                self.left -= data.len() as u64;
                if self.left == 0 {
                    self.state = ChunkState::DataReturn;
                }
                return Ok(Step::Data(data));
            }
            used += 1;
            if self.read(byte)? {
                let _ = input.split_to(used);
                return Ok(Step::Ended);
            }
        }
        input.clear();
        Ok(Step::NeedsMore)
    }

    /// One byte outside of data; whether it is the last one of the body.
    fn read(&mut self, byte: u8) -> Result<bool, Malformed> {
        use ChunkState as S;
        let digit = char::from(byte).to_digit(16).map(u64::from);
        self.state = match (self.state, byte) {
            (S::FirstDigit | S::Digits, _) if let Some(digit) = digit => {
                let longer = self.left.checked_mul(16).map(|left| left + digit);
                self.left = longer.ok_or(Malformed("a chunk is longer than can be"))?;
                S::Digits
            }
            (S::Digits | S::Extension, b'\r') => S::SizeLineFeed,
            (S::Digits, b';' | b' ' | b'\t') => {
                self.overhead = 0;
                S::Extension
            }
            (S::Extension, byte) if byte != b'\n' => self.more_overhead(S::Extension)?,
            (S::SizeLineFeed, b'\n') if self.left == 0 => {
                self.overhead = 0;
                S::TrailerStart
            }
            (S::SizeLineFeed, b'\n') => S::Data,
            (S::DataReturn, b'\r') => S::DataLineFeed,
            (S::DataLineFeed, b'\n') => S::FirstDigit,
            (S::TrailerStart, b'\r') => S::LastLineFeed,
            (S::LastLineFeed, b'\n') => return Ok(true),
            (S::Trailer, b'\r') => S::TrailerLineFeed,
            (S::TrailerLineFeed, b'\n') => S::TrailerStart,
            (S::TrailerStart | S::Trailer, byte) if byte != b'\n' => {
                self.more_overhead(S::Trailer)?
            }
            _ => return Err(Malformed("a chunk does not look like one")),
        };
        Ok(false)
    }

    fn more_overhead(&mut self, next: ChunkState) -> Result<ChunkState, Malformed> {
        self.overhead += 1;
        match self.overhead > MAX_OVERHEAD {
            true => Err(Malformed("a chunk has too much around its data")),
            false => Ok(next),
        }
    }
}

/// The first bytes, up to a number.
fn take(input: &mut Bytes, most: u64) -> Bytes {
    let length = usize::try_from(most).unwrap_or(usize::MAX).min(input.len());
    input.split_to(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn framing(headers: &[(&'static str, &'static str)]) -> Result<(Framing, bool), Malformed> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        Framing::of(StatusCode::OK, Version::HTTP_11, &map)
    }

    /// The body and what is left behind it, read in pieces of a size.
    fn read(
        mut framing: Framing,
        sent: &[u8],
        piece: usize,
    ) -> Result<(Vec<u8>, usize), Malformed> {
        let mut body = Vec::new();
        let mut at = 0;
        for piece in sent.chunks(piece) {
            at += piece.len();
            let mut input = Bytes::copy_from_slice(piece);
            loop {
                match framing.step(&mut input)? {
                    Step::Data(data) => body.extend_from_slice(&data),
                    Step::NeedsMore => break,
                    Step::Ended => return Ok((body, sent.len() - at + input.len())),
                }
            }
        }
        Err(Malformed("not ended"))
    }

    const CHUNKED: Framing =
        Framing::Chunked(Chunks { state: ChunkState::FirstDigit, left: 0, overhead: 0 });

    #[test]
    fn the_headers_say_where_a_body_ends() {
        let chunked = ("transfer-encoding", "Chunked");
        let five = ("content-length", "5");
        let close = ("connection", "keep-alive, Close");
        assert_eq!(framing(&[five]), Ok((Framing::Length(5), true)));
        assert_eq!(framing(&[five, five, close]), Ok((Framing::Length(5), false)));
        assert_eq!(framing(&[("content-length", "0")]), Ok((Framing::Ended, true)));
        assert_eq!(framing(&[chunked]), Ok((CHUNKED, true)));
        assert_eq!(framing(&[chunked, five]), Ok((CHUNKED, false)));
        assert_eq!(framing(&[]), Ok((Framing::UntilClose, false)));
        for wrong in [
            &[five, ("content-length", "6")][..],
            &[("content-length", "+5")],
            &[("content-length", "99999999999999999999")],
            &[("transfer-encoding", "gzip, chunked")],
            &[chunked, chunked],
        ] {
            assert!(framing(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn chunks_that_are_none_are_refused() {
        for wrong in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "5\nhello",
            "5\r\nhello!\r\n",
            "5\r\nhello5\r\n",
            "fffffffffffffffff\r\n",
            "1 \n",
            "0\r\nx: y\n\n",
            "0\r\n\rx",
        ] {
            let result = read(CHUNKED, wrong.as_bytes(), 3);
            assert!(result.is_err_and(|why| why.0 != "not ended"), "{wrong:?}");
        }
        let endless = format!("1;{}", "x".repeat(MAX_OVERHEAD + 1));
        assert_eq!(
            read(CHUNKED, endless.as_bytes(), 999),
            Err(Malformed("a chunk has too much around its data"))
        );
    }

    proptest! {
        #[test]
        fn a_body_is_the_same_however_it_is_cut(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            piece in 1_usize..50,
            behind in 0_usize..9,
            has_trailer: bool,
        ) {
            let body = chunks.concat();
            let mut sent = Vec::new();
            for chunk in &chunks {
                sent.extend_from_slice(format!("{:X};a=\"b\"\r\n", chunk.len()).as_bytes());
                sent.extend_from_slice(chunk);
                sent.extend_from_slice(b"\r\n");
            }
            sent.extend_from_slice(if has_trailer { b"0\r\nx: y\r\n\r\n" } else { b"00\r\n\r\n" });
            sent.extend(vec![b'H'; behind]);
            prop_assert_eq!(read(CHUNKED, &sent, piece), Ok((body.clone(), behind)));
            let mut plain = body.clone();
            plain.extend(vec![b'H'; behind]);
            if !body.is_empty() {
                prop_assert_eq!(read(Framing::Length(body.len() as u64), &plain, piece), Ok((body, behind)));
            }
        }
    }
}
