//! A server that listens on threads of its own until it is stopped or dropped.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::{Server, ServerTlsConfig};

use crate::incoming::Incoming;
use crate::security::refuse_exposed;
use crate::{Error, Result, ServerIdentity, Token};

/// Bytes of one message. The largest that is ever meant has a few hundred.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024;
/// Requests of one connection at once; a peer has one.
const MAX_STREAMS: u32 = 16;
/// Bytes of the headers of one request.
const MAX_HEADERS: u32 = 8 * 1024;
/// How long a handshake may take.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);
/// How long connections have to end when the server does.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How to listen.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Certificate and key: without them the connection is plain.
    pub identity: Option<ServerIdentity>,
    /// What clients must know.
    pub token: Option<Token>,
    /// Connections at once.
    pub most_connections: usize,
}

impl ServerConfig {
    /// Plain and open, which only an address of this machine may be.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, identity: None, token: None, most_connections: 4096 }
    }
}

/// How long peers may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// A request that takes longer is given up.
    pub(crate) request: Duration,
    /// A connection without a word for this long is dead.
    pub(crate) idle: Duration,
}

/// Done when the server is to stop.
pub(crate) type Stopped = Pin<Box<dyn Future<Output = ()> + Send>>;

type Served = Result<(), tonic::transport::Error>;

/// A server that listens.
pub(crate) struct Listening {
    address: SocketAddr,
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Served>,
}

impl Listening {
    /// Starts to listen. An address that other machines can reach needs TLS and a token.
    pub(crate) fn start<F: Future<Output = Served> + Send + 'static>(
        name: &str,
        config: &ServerConfig,
        patience: Patience,
        serve: impl FnOnce(Server, Incoming, Stopped) -> F,
    ) -> Result<Self> {
        let ServerConfig { listen: at, identity, token, most_connections } = config;
        let is_loopback = at.ip().is_loopback();
        refuse_exposed(&at.to_string(), is_loopback, identity.is_some(), token.is_some())?;
        let failed = |error: std::io::Error| Error::Start { reason: error.to_string() };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(name)
            .enable_all()
            .build()
            .map_err(failed)?;
        let listener = runtime.block_on(listen(*at))?;
        let address = listener.local_addr().map_err(failed)?;
        let builder = builder(patience, identity.as_ref())?;
        let (stop, stopped) = oneshot::channel();
        let stopped = Box::pin(async { stopped.await.unwrap_or(()) });
        let incoming = Incoming::new(listener, *most_connections, patience.idle);
        let serving = runtime.spawn(serve(builder, incoming, stopped));
        Ok(Self { address, runtime, stop, serving })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it still listens; if not, something is wrong with the system.
    pub(crate) fn is_listening(&self) -> bool {
        !self.serving.is_finished()
    }

    /// Its threads.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Answers what it was asked, and stops to listen.
    pub(crate) fn stop(self) {
        // No task may be there to receive it, and some may not end: both are fine.
        let _ = self.stop.send(());
        let _ =
            self.runtime.block_on(async { tokio::time::timeout(LAST_WORDS, self.serving).await });
        self.runtime.shutdown_timeout(LAST_WORDS);
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| Error::Listen {
        address,
        reason: match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another program listens there: stop it, or choose another port".to_owned()
            }
            _ => error.to_string(),
        },
    })
}

/// A server with limits for each peer.
pub(crate) fn builder(patience: Patience, identity: Option<&ServerIdentity>) -> Result<Server> {
    let builder = Server::builder()
        .timeout(patience.request)
        .concurrency_limit_per_connection(MAX_STREAMS as usize)
        .load_shed(true)
        .max_concurrent_streams(MAX_STREAMS)
        .http2_max_header_list_size(MAX_HEADERS)
        .http2_keepalive_interval(Some(patience.idle))
        .http2_keepalive_timeout(Some(HANDSHAKE_DEADLINE));
    let Some(identity) = identity else { return Ok(builder) };
    let tls = ServerTlsConfig::new().identity(identity.identity()).timeout(HANDSHAKE_DEADLINE);
    builder.tls_config(tls).map_err(|error| Error::Tls {
        reason: format!("the certificate or its key is not usable: {}", chain(&error)),
    })
}

/// An error with everything that led to it, each cause once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(&format!(": {cause_text}"));
        }
        source = cause.source();
    }
    text
}
