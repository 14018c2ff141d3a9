//! A coordinator that listens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use homeostat_simppo::Coordinator;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::{Server, ServerTlsConfig};

use crate::gate::{Gate, TransportCounts, TurnedAway};
use crate::incoming::Incoming;
use crate::protocol::coordination_server::CoordinationServer;
use crate::security::refuse_exposed;
use crate::service::{CoordinationService, Shared};
use crate::{Error, Result, ServerIdentity, Token};

/// Bytes of one message. The largest that is ever meant has a few hundred.
pub(crate) const MOST_MESSAGE: usize = 16 * 1024;
/// Requests of one connection at once; an agent has one.
const MOST_STREAMS: u32 = 16;
/// Bytes of the headers of one request.
const MOST_HEADERS: u32 = 8 * 1024;
/// A request that takes longer is given up.
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);
/// How long a handshake may take.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);
/// How long connections have to end when the server does.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);

/// How to listen.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Certificate and key: without them the connection is plain.
    pub identity: Option<ServerIdentity>,
    /// What agents must know.
    pub token: Option<Token>,
    /// Connections at once.
    pub most_connections: usize,
}

impl ServerConfig {
    /// Plain and open, which only an address of this machine may be.
    pub fn new(listen: SocketAddr) -> Self {
        Self { listen, identity: None, token: None, most_connections: 4096 }
    }

    pub(crate) fn refuse_exposed(&self) -> Result<()> {
        let Self { listen, identity, token, .. } = self;
        let is_loopback = listen.ip().is_loopback();
        refuse_exposed(&listen.to_string(), is_loopback, identity.is_some(), token.is_some())
    }
}

/// A coordinator that listens until it is stopped or dropped.
pub struct CoordinatorServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    turned_away: Arc<TurnedAway>,
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl CoordinatorServer {
    /// Starts to listen. An address that other machines can reach needs TLS and a token.
    pub fn start(coordinator: Coordinator, config: &ServerConfig) -> Result<Self> {
        let ServerConfig { listen: listen_at, identity, token, most_connections } = config;
        config.refuse_exposed()?;
        let runtime = runtime("coordinator")?;
        let listener = runtime.block_on(listen(*listen_at))?;
        let address = local_address(&listener)?;
        let heartbeat = coordinator.config().heartbeat;
        // Agents are heard at every heartbeat: a connection without a word for this long is dead.
        let most_idle = (4 * coordinator.config().timeout).max(Duration::from_secs(10));
        let builder = builder(REQUEST_DEADLINE, most_idle, identity.as_ref())?;
        let shared = Arc::new(Shared::new(coordinator));
        let service = CoordinationServer::new(CoordinationService(Arc::clone(&shared)))
            .max_decoding_message_size(MOST_MESSAGE);
        let turned_away = Arc::new(TurnedAway::default());
        let gate = Gate::new(service, Arc::clone(&turned_away), token.clone());
        let incoming = Incoming::new(listener, *most_connections, most_idle);
        let (stop, stopped) = oneshot::channel();
        let serving = runtime.spawn(async move {
            let stopped = async { stopped.await.unwrap_or(()) };
            builder.serve_with_incoming_shutdown(gate, incoming, stopped).await
        });
        // The silent time out whether or not anybody else speaks.
        let watched = Arc::clone(&shared);
        runtime.spawn(async move {
            let mut ticks = tokio::time::interval((heartbeat / 4).max(Duration::from_millis(1)));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                drop(watched.now());
            }
        });
        Ok(Self { address, shared, turned_away, runtime, stop, serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it still listens; if not, something is wrong with the system.
    pub fn is_listening(&self) -> bool {
        !self.serving.is_finished()
    }

    /// Looks at the coordinator, which waits meanwhile.
    pub fn with<T>(&self, look: impl FnOnce(&mut Coordinator) -> T) -> T {
        look(&mut self.shared.now())
    }

    /// Requests that never reached the coordinator.
    pub fn transport_counts(&self) -> TransportCounts {
        self.turned_away.counts()
    }

    /// Answers what it was asked, and stops to listen.
    pub fn stop(self) -> Coordinator {
        // Nobody may be there to hear it, and some may not go: both are fine.
        let _ = self.stop.send(());
        let _ =
            self.runtime.block_on(async { tokio::time::timeout(LAST_WORDS, self.serving).await });
        self.runtime.shutdown_timeout(LAST_WORDS);
        self.shared.now().clone()
    }
}

/// Threads for a server.
pub(crate) fn runtime(name: &str) -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(name)
        .enable_all()
        .build()
        .map_err(|error| Error::Start { reason: error.to_string() })
}

pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener> {
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

pub(crate) fn local_address(listener: &TcpListener) -> Result<SocketAddr> {
    listener.local_addr().map_err(|error| Error::Start { reason: error.to_string() })
}

/// A server that lets nobody take more of it than a peer needs. A connection without a word for
/// `most_idle` is dead.
pub(crate) fn builder(
    deadline: Duration,
    most_idle: Duration,
    identity: Option<&ServerIdentity>,
) -> Result<Server> {
    let builder = Server::builder()
        .timeout(deadline)
        .concurrency_limit_per_connection(MOST_STREAMS as usize)
        .load_shed(true)
        .max_concurrent_streams(MOST_STREAMS)
        .http2_max_header_list_size(MOST_HEADERS)
        .http2_keepalive_interval(Some(most_idle))
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
