//! A coordinator that listens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use homeostat_simppo::Coordinator;

use crate::Result;
use crate::gate::{Gate, TransportCounts, TurnedAway};
use crate::listening::{Listening, MAX_MESSAGE, Patience, ServerConfig};
use crate::protocol::coordination::v2::coordination_server::CoordinationServer;
use crate::service::{CoordinationService, Shared};

/// A request that takes so much longer than a step may is given up.
const REQUEST_DEADLINE: Duration = Duration::from_secs(5);

/// A step that is due is played at the latest so long afterwards.
const MAX_TICK: Duration = Duration::from_millis(10);

/// A coordinator that listens until it is stopped or dropped.
pub struct CoordinatorServer {
    shared: Arc<Shared>,
    turned_away: Arc<TurnedAway>,
    listening: Listening,
}

impl CoordinatorServer {
    /// Starts to listen. An address that other machines can reach needs TLS and a token.
    pub fn start(coordinator: Coordinator, config: &ServerConfig) -> Result<Self> {
        let (heartbeat, step_deadline) =
            (coordinator.config().heartbeat, coordinator.config().step_deadline);
        let step_wait = coordinator.step_wait();
        // Agents are heard at every heartbeat: a connection without a word for this long is dead.
        let idle = (4 * coordinator.config().timeout + step_wait).max(Duration::from_secs(10));
        let patience = Patience { request: step_wait + REQUEST_DEADLINE, idle };
        let shared = Arc::new(Shared::new(coordinator));
        let service = CoordinationServer::new(CoordinationService(Arc::clone(&shared)))
            .max_decoding_message_size(MAX_MESSAGE);
        let turned_away = Arc::new(TurnedAway::default());
        let gate = Gate::new(service, Arc::clone(&turned_away), config.token.clone());
        let listening =
            Listening::start("coordinator", config, patience, |server, incoming, stopped| {
                server.serve_with_incoming_shutdown(gate, incoming, stopped)
            })?;
        // Agents fall silent and steps end whether or not a message comes.
        let watched = Arc::clone(&shared);
        let tick = (heartbeat.min(step_deadline) / 4).max(Duration::from_millis(1));
        listening.runtime().spawn(async move {
            let mut ticks = tokio::time::interval(tick.min(MAX_TICK));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                watched.call(|_| ());
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
        self.shared.call(look)
    }

    /// Requests that never reached the coordinator.
    pub fn transport_counts(&self) -> TransportCounts {
        self.turned_away.counts()
    }

    /// Answers what it was asked, stops to listen, and has a last look at the coordinator.
    pub fn stop<T>(self, look: impl FnOnce(&mut Coordinator) -> T) -> T {
        self.listening.stop();
        self.shared.call(look)
    }
}
