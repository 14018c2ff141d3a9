//! Environments that listen.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use super::Environments;
use super::service::EnvironmentService;
use crate::gate::{Gate, TransportCounts, TurnedAway};
use crate::listening::{Listening, MAX_MESSAGE, Patience, ServerConfig, builder, chain};
use crate::protocol::environment::v1::environment_server::EnvironmentServer as Calls;
use crate::{Error, Result, Token};

/// A learner may think for this long between two calls.
const MAX_IDLE: Duration = Duration::from_secs(600);
/// A step of a simulated environment takes milliseconds; the slowest are given this.
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
        Calls::new(EnvironmentService(environments)).max_decoding_message_size(MAX_MESSAGE);
    let gate = Gate::new(service, Arc::new(TurnedAway::default()), config.token.clone());
    let builder = builder(Patience { request: config.deadline, idle: MAX_IDLE }, None)?;
    let served = builder.serve_with_incoming_shutdown(gate, incoming, stop).await;
    served.map_err(|error| Error::Start { reason: chain(&error) })
}

/// Environments that listen until the server is stopped or dropped.
pub struct EnvironmentServer {
    turned_away: Arc<TurnedAway>,
    listening: Listening,
}

impl EnvironmentServer {
    /// Starts to listen. An address that other machines can reach needs TLS and a token.
    pub fn start<E: Environments>(environments: Arc<E>, config: &ServerConfig) -> Result<Self> {
        let service =
            Calls::new(EnvironmentService(environments)).max_decoding_message_size(MAX_MESSAGE);
        let turned_away = Arc::new(TurnedAway::default());
        let gate = Gate::new(service, Arc::clone(&turned_away), config.token.clone());
        let patience = Patience { request: STEP_DEADLINE, idle: MAX_IDLE };
        let listening =
            Listening::start("environments", config, patience, |server, incoming, stopped| {
                server.serve_with_incoming_shutdown(gate, incoming, stopped)
            })?;
        Ok(Self { turned_away, listening })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Whether it still listens; if not, something is wrong with the system.
    pub fn is_listening(&self) -> bool {
        self.listening.is_listening()
    }

    /// Requests that never reached an environment.
    pub fn transport_counts(&self) -> TransportCounts {
        self.turned_away.counts()
    }

    /// Answers what it was asked, and stops to listen.
    pub fn stop(self) {
        self.listening.stop();
    }
}
