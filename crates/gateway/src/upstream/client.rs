//! Requests to one server, over connections that are used again.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, Response, Uri};
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::connection::{Connection, Failure, Stream};
use super::framing::Framing;

const NOT_POISONED: &str = "no code panics while it holds this lock";

/// Idle connections are closed before most servers close them: one that closes just then would fail
/// a request.
const KEEP_IDLE: Duration = Duration::from_secs(4);
/// A body up to this length goes into one packet with its head.
const SMALL_BODY: usize = 16 * 1024;

/// A server and its idle connections.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient(Arc<Server>);

struct Server {
    host: String,
    port: u16,
    /// As the header `host` has it.
    authority: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    connect: Duration,
    idle: Mutex<Vec<(Instant, Connection)>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Server").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl HttpClient {
    /// For the server of a URL. Connects at the first request, and gives up after `connect`.
    pub(crate) fn new(url: &Uri, roots: RootCertStore, connect: Duration) -> Result<Self, String> {
        let authority = url.authority().ok_or("a URL without a host")?;
        let is_tls = url.scheme_str() == Some("https");
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match is_tls {
            false => None,
            true => {
                let provider = Arc::new(ring::default_provider());
                let config = ClientConfig::builder_with_provider(provider)
                    .with_safe_default_protocol_versions()
                    .expect("the provider knows the default versions")
                    .with_root_certificates(roots)
                    .with_no_client_auth();
                let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        // The header has no user, which the URL may have.
        let shown = authority.as_str();
        let shown = shown.rsplit_once('@').map_or(shown, |(_, host)| host).to_owned();
        let idle = Mutex::default();
        Ok(Self(Arc::new(Server { host, port, authority: shown, tls, connect, idle })))
    }

    /// Sends a request and waits for the head of its answer. Dropping the answer cancels the request.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Response<UpstreamBody>, Failure> {
        let mut head = Vec::with_capacity(256 + body.len().min(SMALL_BODY));
        for part in [method.as_str(), " ", path, " HTTP/1.1\r\nhost: ", &self.0.authority] {
            head.extend_from_slice(part.as_bytes());
        }
        for (name, value) in headers {
            head.extend_from_slice(b"\r\n");
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
        }
        if method != Method::GET {
            head.extend_from_slice(format!("\r\ncontent-length: {}", body.len()).as_bytes());
        }
        head.extend_from_slice(b"\r\n\r\n");
        let body = match body.len() > SMALL_BODY {
            true => body,
            false => {
                head.extend_from_slice(body);
                &[]
            }
        };
        let mut connection = match self.idle() {
            Some(connection) => connection,
            None => self.connect().await.map_err(Failure::Unreachable)?,
        };
        let (response, framing, stays_open) = connection.exchange(&[&head, body]).await?;
        let pool = stays_open.then(|| self.clone());
        Ok(response.map(|()| UpstreamBody { connection: Some(connection), framing, pool }))
    }

    fn idle(&self) -> Option<Connection> {
        let mut idle = self.0.idle.lock().expect(NOT_POISONED);
        let oldest = Instant::now().checked_sub(KEEP_IDLE);
        idle.retain(|(since, _)| oldest.is_none_or(|oldest| *since > oldest));
        loop {
            let (_, mut connection) = idle.pop()?;
            if connection.is_quiet() {
                return Some(connection);
            }
        }
    }

    async fn connect(&self) -> io::Result<Connection> {
        let Server { host, port, tls, connect, .. } = &*self.0;
        let connecting = async {
            let tcp = TcpStream::connect((host.as_str(), *port)).await?;
            tcp.set_nodelay(true)?;
            Ok(match tls {
                None => Stream::Plain(tcp),
                Some((tls, name)) => Stream::Tls(Box::new(tls.connect(name.clone(), tcp).await?)),
            })
        };
        // Large with TLS, and rarely awaited.
        let connecting = timeout(*connect, Box::pin(connecting)).await;
        let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "no connection in time"));
        connecting.unwrap_or_else(late).map(Connection::new)
    }
}

/// The body of an answer, as it comes.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    /// Gone at the end.
    connection: Option<Connection>,
    framing: Framing,
    /// Where the connection goes afterwards, unless it is closed.
    pool: Option<HttpClient>,
}

impl hyper::body::Body for UpstreamBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let this = &mut *self;
        let Some(connection) = &mut this.connection else { return Poll::Ready(None) };
        let next = std::task::ready!(connection.poll_body(&mut this.framing, cx));
        // A body of known length ends with its last byte: hyper may not poll again.
        let has_ended = this.framing == Framing::Ended || !matches!(next, Ok(Some(_)));
        if has_ended
            && let Some(connection) = this.connection.take()
            && let (Ok(_), Some(pool)) = (&next, this.pool.take())
        {
            pool.0.idle.lock().expect(NOT_POISONED).push((Instant::now(), connection));
        }
        Poll::Ready(next.transpose().map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.connection.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Length(left) => SizeHint::with_exact(left),
            _ => SizeHint::default(),
        }
    }
}
