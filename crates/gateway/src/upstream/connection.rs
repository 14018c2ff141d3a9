//! An HTTP/1.1 connection to a server behind the gateway.
//!
//! Of its own, and not hyper's: most connections of a gateway wait for the next token, and hyper keeps
//! 27 kB for each of them. This one keeps no buffer while it waits. What comes is read on the stack
//! and copied once, at its length.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderName, HeaderValue, Response, StatusCode, Version};
use hyper::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::framing::{Framing, Malformed, Step};

/// Read at once; on the stack.
const READ: usize = 8 * 1024;
const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// With or without TLS.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection, with what came and has not been used.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    unread: Bytes,
}

/// Why a server gave no answer, or half of one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// There is no connection.
    #[error("is not reachable: {0}")]
    Unreachable(io::Error),
    /// The connection failed.
    #[error("broke off: {0}")]
    Broken(io::Error),
    /// The connection was closed too early.
    #[error("broke off: the connection was closed before the end of the answer")]
    Closed,
    /// What it sent is no HTTP.
    #[error("does not speak HTTP: {0}")]
    Malformed(String),
}

impl From<Malformed> for Failure {
    fn from(what: Malformed) -> Self {
        Self::Malformed(what.to_string())
    }
}

/// The head of an answer, and how the body goes on.
pub(super) type Head = (Response<()>, Framing, bool);

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, unread: Bytes::new() }
    }

    /// Whether nothing has come since the last answer, not even the end of the connection.
    pub(super) fn is_quiet(&mut self) -> bool {
        let tcp = match &self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref().0,
        };
        let mut cx = Context::from_waker(std::task::Waker::noop());
        self.unread.is_empty() && tcp.poll_read_ready(&mut cx).is_pending()
    }

    /// Sends a request and reads the head of its answer. A server may answer before it has read everything;
    /// the rest stays unsent then.
    pub(super) async fn exchange(&mut self, request: &[&[u8]]) -> Result<Head, Failure> {
        let mut unsent = request.iter().copied().filter(|part| !part.is_empty());
        let mut part = unsent.next().unwrap_or_default();
        let mut received = Vec::new();
        let mut failed_write = None;
        std::future::poll_fn(|cx| {
            while !part.is_empty() {
                match Pin::new(&mut self.stream).poll_write(cx, part) {
                    Poll::Ready(Ok(0)) => {
                        failed_write = Some(io::ErrorKind::WriteZero.into());
                        part = &[];
                    }
                    Poll::Ready(Ok(count)) => part = &part[count..],
                    // It may have said why before it closed the connection.
                    Poll::Ready(Err(error)) => {
                        failed_write = Some(error);
                        part = &[];
                    }
                    Poll::Pending => break,
                }
                if part.is_empty() && failed_write.is_none() {
                    part = unsent.next().unwrap_or_default();
                }
            }
            if part.is_empty()
                && let Poll::Ready(Err(error)) = Pin::new(&mut self.stream).poll_flush(cx)
            {
                failed_write.get_or_insert(error);
            }
            loop {
                let more = match ready!(self.stream.poll_some(cx)) {
                    Ok(more) => more,
                    Err(error) => {
                        return Poll::Ready(Err(Failure::Broken(
                            failed_write.take().unwrap_or(error),
                        )));
                    }
                };
                if more.is_empty() {
                    return Poll::Ready(Err(match failed_write.take() {
                        Some(error) => Failure::Broken(error),
                        None => Failure::Closed,
                    }));
                }
                received.extend_from_slice(&more);
                while let Some((response, length)) = parse_head(&received)? {
                    received.drain(..length);
                    // 100, 102 and 103 announce an answer.
                    if response.status().is_informational() {
                        continue;
                    }
                    let (status, version) = (response.status(), response.version());
                    let (framing, stays_open) = Framing::of(status, version, response.headers())?;
                    self.unread = std::mem::take(&mut received).into();
                    let is_sent = part.is_empty() && failed_write.is_none();
                    return Poll::Ready(Ok((response, framing, stays_open && is_sent)));
                }
                if received.len() > MAX_HEAD {
                    let what = format!("the head of its answer is longer than {MAX_HEAD} bytes");
                    return Poll::Ready(Err(Failure::Malformed(what)));
                }
            }
        })
        .await
    }

    /// The next part of a body; none at its end.
    pub(super) fn poll_body(
        &mut self,
        framing: &mut Framing,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        loop {
            match framing.step(&mut self.unread)? {
                Step::Data(data) => return Poll::Ready(Ok(Some(data))),
                Step::Ended => return Poll::Ready(Ok(None)),
                Step::NeedsMore => {}
            }
            self.unread = ready!(self.stream.poll_some(cx)).map_err(Failure::Broken)?;
            if self.unread.is_empty() {
                return Poll::Ready(match framing {
                    Framing::UntilClose => Ok(None),
                    _ => Err(Failure::Closed),
                });
            }
        }
    }
}

/// A whole head and its length, if it is there.
fn parse_head(received: &[u8]) -> Result<Option<(Response<()>, usize)>, Failure> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let malformed = |what: &dyn std::fmt::Display| Failure::Malformed(what.to_string());
    let config = httparse::ParserConfig::default();
    let length = config
        .parse_response_with_uninit_headers(&mut parsed, received, &mut headers)
        .map_err(|error| malformed(&error))?;
    let httparse::Status::Complete(length) = length else { return Ok(None) };
    let mut response = Response::new(());
    let code = parsed.code.unwrap_or_default();
    *response.status_mut() = StatusCode::from_u16(code).map_err(|error| malformed(&error))?;
    *response.version_mut() =
        if parsed.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    for header in parsed.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_bytes(header.value);
        if let (Ok(name), Ok(value)) = (name, value) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(Some((response, length)))
}

impl Stream {
    /// What has come, at its length; nothing at the end.
    fn poll_some(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut space = [MaybeUninit::uninit(); READ];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(self).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(buffer.filled())))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
