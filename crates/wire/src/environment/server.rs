//! Environments that listen.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use super::Environments;
use super::protocol::environment_server::EnvironmentServer as Calls;
use super::service::EnvironmentService;
use crate::gate::{Gate, TransportCounts, TurnedAway};
use crate::incoming::Incoming;
use crate::server::{LAST_WORDS, MOST_MESSAGE, builder, listen, local_address, runtime};
use crate::{Result, ServerConfig, Token};

/// A learner may think for this long between two calls.
const MOST_IDLE: Duration = Duration::from_secs(600);
/// A step of a simulated world takes milliseconds; the slowest are given this.
const STEP_DEADLINE: Duration = Duration::from_secs(60);

/// How environments are served on connections that somebody else accepts.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// What learners must know.
    pub token: Option<Token>,
    /// How long a step may take.
    pub deadline: Duration,
}

/// Serves environments on connections that come in, until `stop` is done or nothing can come in.
/// Who may connect, and whether in the clear, is the caller's business.
pub async fn serve_environments<E, I, C>(
    environments: Arc<E>,
    config: &ServeConfig,
    incoming: I,
    stop: impl Future<Output = ()>,
) -> Result<()>
where
    E: Environments,
    I: Stream<Item = io::Result<C>>,
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let service =
        Calls::new(EnvironmentService(environments)).max_decoding_message_size(MOST_MESSAGE);
    let gate = Gate::new(service, Arc::new(TurnedAway::default()), config.token.clone());
    let builder = builder(config.deadline, MOST_IDLE, None)?;
    let served = builder.serve_with_incoming_shutdown(gate, incoming, stop).await;
    served.map_err(|error| crate::Error::Start { reason: crate::server::chain(&error) })
}

/// Environments that listen until the server is stopped or dropped.
pub struct EnvironmentServer {
    address: SocketAddr,
    turned_away: Arc<TurnedAway>,
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl EnvironmentServer {
    /// Starts to listen. An address that other machines can reach needs TLS and a token.
    pub fn start<E: Environments>(environments: Arc<E>, config: &ServerConfig) -> Result<Self> {
        config.refuse_exposed()?;
        let runtime = runtime("environments")?;
        let listener = runtime.block_on(listen(config.listen))?;
        let address = local_address(&listener)?;
        let builder = builder(STEP_DEADLINE, MOST_IDLE, config.identity.as_ref())?;
        let service =
            Calls::new(EnvironmentService(environments)).max_decoding_message_size(MOST_MESSAGE);
        let turned_away = Arc::new(TurnedAway::default());
        let gate = Gate::new(service, Arc::clone(&turned_away), config.token.clone());
        let incoming = Incoming::new(listener, config.most_connections, MOST_IDLE);
        let (stop, stopped) = oneshot::channel();
        let serving = runtime.spawn(async move {
            let stopped = async { stopped.await.unwrap_or(()) };
            builder.serve_with_incoming_shutdown(gate, incoming, stopped).await
        });
        Ok(Self { address, turned_away, runtime, stop, serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it still listens; if not, something is wrong with the system.
    pub fn is_listening(&self) -> bool {
        !self.serving.is_finished()
    }

    /// Requests that never reached an environment.
    pub fn transport_counts(&self) -> TransportCounts {
        self.turned_away.counts()
    }

    /// Answers what it was asked, and stops to listen.
    pub fn stop(self) {
        // Nobody may be there to hear it, and some may not go: both are fine.
        let _ = self.stop.send(());
        let _ =
            self.runtime.block_on(async { tokio::time::timeout(LAST_WORDS, self.serving).await });
        self.runtime.shutdown_timeout(LAST_WORDS);
    }
}
