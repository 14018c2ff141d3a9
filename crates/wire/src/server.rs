//! A coordinator that listens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use homeostat_simppo::Coordinator;

use crate::Result;
use crate::gate::{Gate, TransportCounts, TurnedAway};
use crate::listening::{Listening, MAX_MESSAGE, Patience, ServerConfig};
use crate::protocol::coordination_server::CoordinationServer;
use crate::service::{CoordinationService, Shared};

/// A request that takes longer is given up.
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);

/// A coordinator that listens until it is stopped or dropped.
pub struct CoordinatorServer {
    shared: Arc<Shared>,
    turned_away: Arc<TurnedAway>,
    listening: Listening,
}

impl CoordinatorServer {
    /// Starts to listen. An address that other machines can reach needs TLS and a token.
    pub fn start(coordinator: Coordinator, config: &ServerConfig) -> Result<Self> {
        let heartbeat = coordinator.config().heartbeat;
        // Agents are heard at every heartbeat: a connection without a word for this long is dead.
        let idle = (4 * coordinator.config().timeout).max(Duration::from_secs(10));
        let patience = Patience { request: REQUEST_DEADLINE, idle };
        let shared = Arc::new(Shared::new(coordinator));
        let service = CoordinationServer::new(CoordinationService(Arc::clone(&shared)))
            .max_decoding_message_size(MAX_MESSAGE);
        let turned_away = Arc::new(TurnedAway::default());
        let gate = Gate::new(service, Arc::clone(&turned_away), config.token.clone());
        let listening =
            Listening::start("coordinator", config, patience, |server, incoming, stopped| {
                server.serve_with_incoming_shutdown(gate, incoming, stopped)
            })?;
        // The silent time out whether or not anybody else speaks.
        let watched = Arc::clone(&shared);
        listening.runtime().spawn(async move {
            let mut ticks = tokio::time::interval((heartbeat / 4).max(Duration::from_millis(1)));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                drop(watched.now());
            }
        });
        Ok(Self { shared, turned_away, listening })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listening.address()
    }

    /// Whether it still listens; if not, something is wrong with the system.
    pub fn is_listening(&self) -> bool {
        self.listening.is_listening()
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
        self.listening.stop();
        self.shared.now().clone()
    }
}
